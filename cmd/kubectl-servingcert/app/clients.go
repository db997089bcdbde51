package app

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/cluster"
	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/status"
	"github.com/servingcert/servingcert/pkg/api"
)

// clientsFlags are the flags of clients.
type clientsFlags struct {
	*plugin
	name, output    string
	window, timeout time.Duration
}

func (p *plugin) clientsCommand() *cobra.Command {
	return verb{
		about: "Show the clients of a Service that still use plaintext, or that its list of clients refuses. Exit code 1 if there are any, or if this is unknown.",
		usage: "clients [-n NAMESPACE] SERVICE [flags]",
		examples: `# The clients that must move to TLS before plaintext can be removed.
kubectl servingcert clients web -n shop

# Check that no client has used plaintext for two weeks.
kubectl servingcert clients web -n shop --for 336h

# Who would be refused without watch in annotation servingcert.dev/clients, and which of its entries nobody uses.
kubectl servingcert clients db -n data

# The names of the clients.
kubectl servingcert clients web -n shop -o jsonpath='{range .ports[*].clients[*]}{.name}{"\n"}{end}'`,
		outputs: reportOutputs,
		args:    atMostOne(p.live(services)),
		setup: func(fs *pflag.FlagSet) func(context.Context, []string) error {
			f := clientsFlags{plugin: p}
			p.kube.addNamespace(fs, "namespace of the Service")
			fs.DurationVar(&f.window, "for", 7*24*time.Hour, "period in which no client may have used plaintext, or have called without being listed")
			fs.DurationVar(&f.timeout, "timeout", 10*time.Second, "how long to wait for the answer of each pod's proxy")
			fs.StringVarP(&f.output, "output", "o", "text", reportOutputs.String())
			return func(ctx context.Context, args []string) error {
				if err := f.validate(args); err != nil {
					return err
				}
				return f.run(ctx, time.Now())
			}
		},
	}.command()
}

func (f *clientsFlags) validate(args []string) error {
	switch {
	case len(args) == 0:
		return usagef("no Service given: name one")
	case len(args) > 1:
		return usagef("unexpected argument %q: name one Service", args[1])
	case f.window <= 0:
		return usagef("--for %s: must be positive", f.window)
	case f.timeout <= 0:
		return usagef("--timeout %s: must be positive", f.timeout)
	}
	f.name = serviceName(args[0])
	return reportOutputs.validate(f.output)
}

func (f *clientsFlags) run(ctx context.Context, now time.Time) error {
	c, err := f.connect()
	if err != nil {
		return err
	}
	cfg, err := cluster.Config(f.kube)
	if err != nil {
		return err
	}
	situation, err := c.Clients(ctx, cfg, f.name, f.timeout)
	if err != nil {
		return err
	}
	situation.Window = f.window
	found := status.ClientsOf(situation, now)
	if isData(f.output) {
		err = writeData(f.out, f.output, clientsData{headerOf("Clients"), found})
	} else {
		err = writeClients(f.screen, found)
	}
	if err == nil && !found.Clear() {
		return errReported
	}
	return err
}

// clientsData is the output of clients as data.
type clientsData struct {
	header
	status.Clients
}

// verdictStyles are the styles of a port's verdict.
var verdictStyles = map[string]style{status.ClientsLeft: bad, status.ClientsNone: good, status.ClientsTooSoon: doubt, status.ClientsUnknown: doubt}

func writeClients(s screen, found status.Clients) error {
	for i, p := range found.Ports {
		head := fmt.Sprintf("Service %s/%s, port %s: %s", found.Namespace, found.Service, p.Name, api.Count(p.Pods, "pod"))
		if p.Since != nil {
			head += ", all recording since " + clock(p.Since)
		}
		if i > 0 {
			head = "\n" + head
		}
		if err := writeLines(s, head+"\n"); err != nil {
			return err
		}
		if err := writeClientRows(s, p); err != nil {
			return err
		}
		if err := writeLines(s, evicted("addresses", p.Evicted, p.EvictedLast)); err != nil {
			return err
		}
		if err := writeAdvice(s, p.Advice, p.Verdict); err != nil {
			return err
		}
	}
	if err := writeCallers(s, found); err != nil {
		return err
	}
	text := ""
	for _, u := range found.Unanswered {
		text += "No answer: " + u + "\n"
	}
	for _, u := range found.NotSeen {
		text += "Not read, so clients may have no name: " + u + "\n"
	}
	return writeLines(s, text)
}

func writeAdvice(s screen, advice, verdict string) error {
	_, err := fmt.Fprintln(s.to, s.paint(advice, verdictStyles[verdict]))
	return err
}

func writeClientRows(s screen, p status.ClientsPort) error {
	if len(p.Clients) == 0 {
		return nil
	}
	rows := [][]cell{cells("CLIENT", "LAST", "FIRST", "CONNECTIONS", "KIND", "ADDRESSES")}
	for _, c := range p.Clients[:min(len(p.Clients), maxRows)] {
		addresses := api.Listed(c.Addresses, 3)
		rows = append(rows, cells(c.Name, clock(&c.Last), clock(&c.First), strconv.FormatUint(c.Connections, 10), strings.Join(c.Kinds, ","), addresses))
	}
	if err := (&table{}).write(s, rows...); err != nil {
		return err
	}
	return writeLines(s, moreRows(len(p.Clients)))
}

// maxRows is the number of clients that a table shows: pods may answer with many.
const maxRows = 100

// moreRows returns how many of all clients a table does not show; empty if it shows all.
func moreRows(all int) string {
	if all <= maxRows {
		return ""
	}
	return fmt.Sprintf("and %d more: -o json has all\n", all-maxRows)
}
