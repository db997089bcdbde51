package app

import (
	"cmp"
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/servingcert/servingcert/cmd/internal/version"
	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/cluster"
)

// versionFlags are the flags of version.
type versionFlags struct {
	*plugin
	system, output string
	client         bool
}

func (p *plugin) versionCommand() *cobra.Command {
	return verb{
		about: "Show the versions of the plugin, of Kubernetes, and of servingcert in the cluster.",
		usage: "version [--client] [flags]",
		examples: `# The plugin's version, for a script.
kubectl servingcert version --client -o jsonpath='{.client.version}'`,
		outputs: reportOutputs,
		setup: func(fs *pflag.FlagSet) func(context.Context, []string) error {
			f := versionFlags{plugin: p}
			fs.BoolVar(&f.client, "client", false, "print only the plugin's version, without a connection to the cluster")
			fs.StringVarP(&f.output, "output", "o", "text", reportOutputs.String())
			systemNamespace(fs, &f.system)
			return func(ctx context.Context, args []string) error {
				if len(args) > 0 {
					return usagef("unexpected argument %q", args[0])
				}
				if err := reportOutputs.validate(f.output); err != nil {
					return err
				}
				return f.run(ctx)
			}
		},
	}.command()
}

// versions is the output of version.
type versions struct {
	header
	Client     version.Info      `json:"client"`
	Kubernetes string            `json:"kubernetes,omitempty"`
	Server     []cluster.Running `json:"server,omitempty"`
}

// run prints the client's version even if the cluster does not answer, as kubectl version does.
func (f *versionFlags) run(ctx context.Context) error {
	v := versions{header: headerOf("Versions"), Client: version.Get()}
	var failed error
	if !f.client {
		failed = f.readServer(ctx, &v)
	}
	if err := f.write(v); err != nil {
		return err
	}
	return failed
}

func (f *versionFlags) readServer(ctx context.Context, v *versions) error {
	c, err := f.connect()
	if err != nil {
		return err
	}
	if v.Kubernetes, err = c.KubernetesVersion(); err != nil {
		return err
	}
	v.Server, err = c.Running(ctx, f.system)
	return err
}

func (f *versionFlags) write(v versions) error {
	if f.output != "text" {
		return writeData(f.out, f.output, v)
	}
	rows := [][]cell{cells("Plugin", v.Client.String())}
	if v.Kubernetes != "" {
		rows = append(rows, cells("Kubernetes", v.Kubernetes))
	}
	for _, r := range v.Server {
		rows = append(rows, cells(r.Name, fmt.Sprintf("%s (%s pods of image %s)", cmp.Or(r.Version, "unknown"), strconv.Itoa(r.Pods), r.Image)))
	}
	return new(table).write(f.screen, rows...)
}
