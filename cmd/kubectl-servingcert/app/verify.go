package app

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/cluster"
	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/status"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
	"github.com/servingcert/servingcert/pkg/rotator/probe/dial"
	"github.com/servingcert/servingcert/pkg/starttls"
)

// verifyFlags are the flags of verify.
type verifyFlags struct {
	*plugin
	namespace, system, address string
	output                     string
	timeout                    time.Duration
	starttls                   string
	name                       string
	any                        anyFlags
}

func (p *plugin) verifyCommand() *cobra.Command {
	return verb{
		about: "Check the certificate of a Service: its objects and, with --address, the certificate that a server presents, and whether it refuses clients that the Service does not list. Exit code 1 if a check fails, the rotator has not probed the pods yet, or no rotator runs. After a change of the certificate, it waits up to 5 seconds for the rotator.",
		usage: "verify [-n NAMESPACE] (SERVICE [--address HOST:PORT] | --any [-A]) [flags]",
		examples: `# The objects of a Service: its conditions, its Secret, and the bundle.
kubectl servingcert verify web

# And the certificate that one of its servers presents. If the Service lists its clients, whether others are refused.
kubectl port-forward service/web 8443:443 &
kubectl servingcert verify web --address localhost:8443

# Which certificates do the pods of a namespace serve, whoever issued them? servingcert need not be installed.
kubectl servingcert verify --any -n shop

# A check for CI: nothing that is expired, about to expire, or older than its Secret. Without unread, a Secret that may not be read passes.
kubectl servingcert verify --any -A --fail-on expired,expiring,stale,unread`,
		outputs: reportOutputs,
		args:    atMostOne(p.live(services)),
		setup: func(fs *pflag.FlagSet) func(context.Context, []string) error {
			f := verifyFlags{plugin: p}
			p.kube.addNamespace(fs, "namespace of the Service")
			fs.StringVar(&f.address, "address", "", "address of one of its servers, such as localhost:8443 after kubectl port-forward")
			fs.StringVar(&f.starttls, "starttls", "", "STARTTLS protocol of the address: "+strings.Join(starttls.Protocols(), ", ")+" (default: from annotation "+api.AnnotationProbe+" or the name of the Service's port)")
			fs.DurationVar(&f.timeout, "timeout", 10*time.Second, "time limit of the connection and the TLS handshake")
			fs.StringVarP(&f.output, "output", "o", "text", reportOutputs.String())
			systemNamespace(fs, &f.system)
			f.any.add(fs)
			return func(ctx context.Context, args []string) error {
				if err := f.validate(args); err != nil {
					return err
				}
				if f.any.set {
					return f.runAny(ctx)
				}
				return f.run(ctx, time.Now())
			}
		},
	}.command()
}

func (f *verifyFlags) validate(args []string) error {
	if f.any.set {
		return f.validateAny(args)
	}
	switch {
	case f.any.all, f.any.direct, len(f.any.failOn) > 0, f.any.clusterDomain != api.DefaultLimits().ClusterDomain:
		return usagef("--all-namespaces, --direct, --fail-on and --cluster-domain need --any")
	case len(args) == 0:
		return usagef("no Service given: name one, or use --any")
	case len(args) > 1:
		return usagef("unexpected argument %q: name one Service", args[1])
	case f.timeout <= 0:
		return usagef("--timeout %s: must be positive", f.timeout)
	}
	if f.starttls != "" && !starttls.Protocol(f.starttls).Known() {
		return usagef("--starttls %q: must be one of %s", f.starttls, strings.Join(starttls.Protocols(), ", "))
	}
	if f.address != "" {
		if host, port, err := net.SplitHostPort(f.address); err != nil || host == "" || port == "" {
			return usagef("--address %q: must be HOST:PORT", f.address)
		}
	}
	f.name = serviceName(args[0])
	return reportOutputs.validate(f.output)
}

func (f *verifyFlags) run(ctx context.Context, now time.Time) error {
	c, err := f.connect()
	if err != nil {
		return err
	}
	f.namespace = c.Namespace
	seen, err := f.settled(ctx, func() (status.VerifySituation, error) { return c.Certificate(ctx, f.namespace, f.name, f.system) })
	if err != nil {
		return err
	}
	if seen.Address = f.address; f.address != "" {
		seen.Dialled = true
		_, port, _ := net.SplitHostPort(f.address) // validated before
		// The rotator's probe accepts any certificate: status.Verify checks it.
		protocol := cmp.Or(starttls.Protocol(f.starttls), seen.Protocol(port))
		outcome := cluster.Dial(ctx, dial.To(f.address), seen.Proxied(port), seen.Host, protocol, f.timeout)
		seen.Served, seen.Handshake, seen.DialErr = outcome.Chain, outcome.Handshake, outcome.Err
		if seen.Service.Guarded != nil {
			strangers, err := c.Strangers(ctx, f.system)
			if err != nil {
				return err
			}
			seen.Strangers = strangers.Try(ctx, dial.To(f.address), seen.Host, protocol, f.timeout, seen.Guard())
		}
	}
	return f.write(seen, status.Verify(seen, now))
}

// settled reads the situation, and again for a while if the rotator is about to report. Most programs serve a new certificate
// within two seconds, and until then nothing has been seen.
func (f *verifyFlags) settled(ctx context.Context, read func() (status.VerifySituation, error)) (status.VerifySituation, error) {
	limit := time.After(f.timing.Verify)
	for {
		seen, err := read()
		if err != nil || !seen.AwaitsReport() {
			return seen, err
		}
		select {
		case <-ctx.Done():
			return seen, nil
		case <-limit:
			return seen, nil
		case <-time.After(time.Second / 4):
		}
	}
}

// verification is the output of verify.
type verification struct {
	header
	Namespace string   `json:"namespace"`
	Service   string   `json:"service"`
	Proxy     []string `json:"proxy,omitempty"`
	// TLS is what the handshake with --address negotiated; absent without one.
	TLS      *probe.HandshakeNames `json:"tls,omitempty"`
	Findings []status.Finding      `json:"findings"`
}

// marks are the glyphs and styles of verdicts.
var marks = map[string]struct {
	glyph string
	how   style
}{
	status.VerdictOK:      {"✓", good},
	status.VerdictFailed:  {"✗", bad},
	status.VerdictUnknown: {"?", doubt},
	status.VerdictNotSeen: {"?", doubt},
}

func (f *verifyFlags) write(seen status.VerifySituation, findings []status.Finding) error {
	failed := slices.ContainsFunc(findings, func(f status.Finding) bool {
		return f.Verdict == status.VerdictFailed || f.Verdict == status.VerdictNotSeen
	})
	var err error
	if f.output == "text" {
		err = writeFindings(f.screen, findings)
	} else {
		v := verification{headerOf("Verification"), f.namespace, f.name, seen.Service.Proxy, nil, findings}
		if len(seen.Served) > 0 {
			names := seen.Handshake.Names()
			v.TLS = &names
		}
		err = writeData(f.out, f.output, v)
	}
	if err == nil && failed {
		return errReported
	}
	return err
}

func writeFindings(s screen, findings []status.Finding) error {
	for _, f := range findings {
		mark := marks[f.Verdict]
		glyph := ""
		if s.glyphs {
			glyph = s.paint(mark.glyph, mark.how) + " "
		}
		verdict := s.paint(f.Verdict, mark.how) + strings.Repeat(" ", 8-len(f.Verdict))
		if _, err := fmt.Fprintf(s.to, "%s%s%s\n", glyph, verdict, api.Escape(f.Text)); err != nil {
			return err
		}
	}
	return nil
}
