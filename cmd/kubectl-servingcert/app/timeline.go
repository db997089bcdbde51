package app

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/cluster"
	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/judge"
	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/timeline"
	"github.com/servingcert/servingcert/pkg/api"
)

// timelineFlags are what timeline was asked.
type timelineFlags struct {
	*plugin
	system, output string
	ca             bool
	since, until   time.Duration
	name           string
}

// fileColumns is how wide the text is where there is no terminal.
const fileColumns = 100

func (p *plugin) timelineCommand() *cobra.Command {
	return verb{
		about: "Show the generations of the CA and the certificates of Services on one axis of time.",
		usage: "timeline [-n NAMESPACE] [SERVICE | --ca] [flags]",
		examples: `# The certificate of a Service beside the generations of the CA.
kubectl servingcert timeline web

# The generations alone, of the last 30 days.
kubectl servingcert timeline --ca --since 720h`,
		outputs: reportOutputs,
		args:    atMostOne(p.live(services)),
		setup: func(fs *pflag.FlagSet) func(context.Context, []string) error {
			f := timelineFlags{plugin: p}
			p.kube.addNamespace(fs, "namespace of the Services")
			fs.BoolVar(&f.ca, "ca", false, "only the generations of the CA")
			fs.DurationVar(&f.since, "since", 0, "how far back the axis reaches, such as 10m or 720h (default: all that is shown)")
			fs.DurationVar(&f.until, "until", 0, "how far ahead the axis reaches (default: all that is shown)")
			fs.StringVarP(&f.output, "output", "o", "text", reportOutputs.String())
			systemNamespace(fs, &f.system)
			return func(ctx context.Context, args []string) error {
				if err := f.validate(args); err != nil {
					return err
				}
				return f.run(ctx, time.Now())
			}
		},
	}.command()
}

func (f *timelineFlags) validate(args []string) error {
	if err := oneService(args, &f.name); err != nil {
		return err
	}
	switch {
	case f.ca && f.name != "":
		return usagef("--ca and the name of a Service are mutually exclusive")
	case f.since < 0:
		return usagef("--since %s: must be positive", f.since)
	case f.until < 0:
		return usagef("--until %s: must be positive", f.until)
	}
	return reportOutputs.validate(f.output)
}

func (f *timelineFlags) run(ctx context.Context, now time.Time) error {
	c, err := f.connect()
	if err != nil {
		return err
	}
	in := timeline.Input{Now: now, Since: f.since, Until: f.until}
	switch cm, err := c.CAConfigMap(ctx, f.system); {
	case err == nil:
		status := api.ParseCAStatus(cm.Data)
		in.CA = &status
	case f.ca || !apierrors.IsForbidden(err):
		return err
	}
	if !f.ca {
		if in.Services, err = f.services(ctx, c); err != nil {
			return err
		}
	}
	return f.write(timeline.Build(in))
}

// services returns the Services that are shown, with the times of their certificates as
// far as the user may read them.
func (f *timelineFlags) services(ctx context.Context, c *cluster.Cluster) ([]judge.Service, error) {
	found, err := c.Services(ctx, c.Namespace)
	if err != nil {
		return nil, err
	}
	if f.name == "" {
		return found, c.AddTimes(ctx, c.Namespace, found)
	}
	i := slices.IndexFunc(found, func(s judge.Service) bool { return s.Name == f.name })
	if i < 0 {
		return nil, fmt.Errorf("namespace %q has no Service %q that asks for a certificate", c.Namespace, f.name)
	}
	return found[i : i+1], c.AddTimesOf(ctx, &found[i])
}

// timelineData is the timeline for programs.
type timelineData struct {
	header
	timeline.Timeline
}

func (f *timelineFlags) write(t timeline.Timeline) error {
	if isData(f.output) {
		return writeData(f.out, f.output, timelineData{headerOf("Timeline"), t})
	}
	columns := f.screen.columns
	if columns == 0 {
		columns = fileColumns
	}
	for _, line := range t.Text(columns, f.screen.glyphs) {
		for _, piece := range line {
			if _, err := io.WriteString(f.screen.to, f.screen.paint(piece.Text, tones[piece.Tone])); err != nil {
				return err
			}
		}
		if _, err := io.WriteString(f.screen.to, "\n"); err != nil {
			return err
		}
	}
	return nil
}

// tones paint the timeline.
var tones = map[timeline.Tone]style{timeline.Good: good, timeline.Doubt: doubt, timeline.Bad: bad}
