package main

import (
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/rotator/probe/dial"
)

// verifyFlags are what verify was asked.
type verifyFlags struct {
	clusterFlags
	namespace, system, address string
	timeout                    time.Duration
	name                       string
}

func verifyCommand() command {
	return command{
		name:  "verify",
		about: "Check a Service's certificate: what is in its objects, and with --address what is served.",
		usage: "verify [-n NAMESPACE] SERVICE [--address HOST:PORT] [flags]",
		setup: func(fs *pflag.FlagSet) func(context.Context, []string, streams) error {
			var f verifyFlags
			fs.StringVarP(&f.namespace, "namespace", "n", "", "namespace of the Service (default: the context's)")
			fs.StringVar(&f.address, "address", "", "where one of its servers is reached from here, such as localhost:8443 after kubectl port-forward")
			fs.DurationVar(&f.timeout, "timeout", 10*time.Second, "how long a handshake may take")
			systemNamespace(fs, &f.system)
			f.add(fs)
			return func(ctx context.Context, args []string, std streams) error {
				if err := f.validate(args); err != nil {
					return err
				}
				return f.run(ctx, std, time.Now())
			}
		},
	}
}

func (f *verifyFlags) validate(args []string) error {
	switch {
	case len(args) == 0:
		return usagef("which Service: name one")
	case len(args) > 1:
		return usagef("unexpected argument %q: one Service is named", args[1])
	case f.timeout <= 0:
		return usagef("--timeout %s: must be more than nothing", f.timeout)
	}
	if f.address != "" {
		if host, port, err := net.SplitHostPort(f.address); err != nil || host == "" || port == "" {
			return usagef("--address %q: must be HOST:PORT", f.address)
		}
	}
	f.name = args[0]
	return nil
}

func (f *verifyFlags) run(ctx context.Context, std streams, now time.Time) error {
	c, err := f.connect()
	if err != nil {
		return err
	}
	if f.namespace == "" {
		f.namespace = c.namespace
	}
	seen, err := f.gather(ctx, c)
	if err != nil {
		return err
	}
	if f.address != "" {
		seen.dialled = true
		seen.served, seen.dialErr = fetch(ctx, f.address, f.host(), f.timeout)
	}
	return writeFindings(std.out, judge(seen, now))
}

// host is the name that clients use, in whichever cluster domain.
func (f *verifyFlags) host() string { return f.name + "." + f.namespace + ".svc" }

// gather reads the objects. What is missing, or may not be read, is judged.
func (f *verifyFlags) gather(ctx context.Context, c *cluster) (seen, error) {
	s := seen{host: f.host(), address: f.address, trustName: f.namespace + "/" + bundleName}
	svc, err := c.client.CoreV1().Services(f.namespace).Get(ctx, f.name, metav1.GetOptions{})
	if err != nil {
		return s, err
	}
	s.service, _ = statusOf(svc)
	switch bundle, err := c.client.CoreV1().ConfigMaps(f.namespace).Get(ctx, bundleName, metav1.GetOptions{}); {
	case err == nil:
		s.bundle = bundle.Data
	case !apierrors.IsNotFound(err):
		return s, fmt.Errorf("read the bundle: %w", err)
	}
	switch cm, err := c.caConfigMap(ctx, f.system); {
	case err == nil:
		s.published = parseCA(cm.Data).BundleHash
	case apierrors.IsForbidden(err):
		s.publishedErr = err
	default:
		return s, err
	}
	if s.service.Secret == "" {
		return s, nil
	}
	switch secret, err := c.client.CoreV1().Secrets(f.namespace).Get(ctx, s.service.Secret, metav1.GetOptions{}); {
	case err == nil:
		s.secretRead, s.secret = true, secret.Data[corev1.TLSCertKey]
	case apierrors.IsForbidden(err):
		s.secretErr = err
	case apierrors.IsNotFound(err):
		s.secretRead = true
	default:
		return s, fmt.Errorf("read the Secret: %w", err)
	}
	return s, nil
}

// fetch returns the certificates that a server shows for a name, by the dial with
// which the rotator judges pods. Nothing is trusted here: they are judged
// afterwards, whatever they are.
func fetch(ctx context.Context, address, host string, timeout time.Duration) ([]*x509.Certificate, error) {
	outcome := dial.Dial(ctx, address, host, timeout)
	return outcome.Chain, outcome.Err
}

func writeFindings(w io.Writer, findings []finding) error {
	failed := false
	for _, f := range findings {
		_, _ = fmt.Fprintf(w, "%-8s%s\n", f.verdict, f.says)
		failed = failed || f.verdict == verdictFails
	}
	if failed {
		return errSaid
	}
	return nil
}
