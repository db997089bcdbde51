package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/cluster"
	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/follow"
	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/judge"
	"github.com/servingcert/servingcert/pkg/api"
)

// renewFlags are what renew was asked.
type renewFlags struct {
	*plugin
	namespace          string
	all, allNamespaces bool
	selector           string
	wait               bool
	timeout            time.Duration
	names              []string
}

func (p *plugin) renewCommand() *cobra.Command {
	return verb{
		about: "Renew the certificates of Services now, with new keys.",
		usage: "renew [-n NAMESPACE] SERVICE... | --all | -A --all",
		args:  p.live(services),
		setup: func(fs *pflag.FlagSet) func(context.Context, []string) error {
			f := renewFlags{plugin: p}
			p.kube.addNamespace(fs, "namespace of the Services")
			fs.BoolVar(&f.all, "all", false, "every Service of the namespace that asks for a certificate")
			fs.BoolVarP(&f.allNamespaces, "all-namespaces", "A", false, "with --all: the Services of all namespaces")
			fs.StringVarP(&f.selector, "selector", "l", "", "with --all: only Services with these labels")
			fs.BoolVar(&f.wait, "wait", true, "wait until each Service has a new certificate")
			fs.DurationVar(&f.timeout, "timeout", 5*time.Minute, "how long to wait")
			return func(ctx context.Context, args []string) error {
				f.names = args
				if err := f.validate(); err != nil {
					return err
				}
				return f.run(ctx, time.Now)
			}
		},
	}.command()
}

func (f *renewFlags) validate() error {
	switch {
	case f.all && len(f.names) > 0:
		return usagef("--all and names of Services are mutually exclusive")
	case !f.all && len(f.names) == 0:
		return usagef("no Service given: name Services, or use --all")
	case f.allNamespaces && !f.all:
		return usagef("-A requires --all: named Services are in one namespace")
	case f.allNamespaces && *f.kube.Namespace != "":
		return usagef("-n and -A are mutually exclusive")
	case f.selector != "" && !f.all:
		return usagef("-l requires --all: Services are given by name or by label")
	case f.timeout <= 0:
		return usagef("--timeout %s: must be positive", f.timeout)
	}
	return validSelector(f.selector)
}

func (f *renewFlags) run(ctx context.Context, now func() time.Time) error {
	c, err := f.connect()
	if err != nil {
		return err
	}
	if !f.allNamespaces {
		f.namespace = c.Namespace
	}
	chosen, err := f.choose(ctx, c, f.out)
	if err != nil {
		return err
	}
	after := renewAfter(now())
	for _, s := range chosen {
		if err := renew(ctx, c, s, after); err != nil {
			return err
		}
	}
	if !f.wait {
		_, err := fmt.Fprintf(f.out, "renewal requested for %d certificates\n", len(chosen))
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	bar := f.bar()
	w := follow.Watcher{Cluster: c, Out: bar.Above(f.out), Bar: bar, Now: now, Timeout: f.timeout}
	return w.Renewal(ctx, chosen)
}

// renewAfter is the time to ask for at now: a certificate issued in this second
// is older, as certificates count in whole seconds.
func renewAfter(now time.Time) time.Time { return now.UTC().Truncate(time.Second).Add(time.Second) }

// choose returns the Services that were asked for.
func (f *renewFlags) choose(ctx context.Context, c *cluster.Cluster, out io.Writer) ([]judge.Service, error) {
	all, err := c.SelectedServices(ctx, f.namespace, f.selector)
	if err != nil {
		return nil, err
	}
	for _, s := range all {
		switch {
		case !s.PodKeys:
		case slices.Contains(f.names, s.Name):
			return nil, errors.New(judge.CannotRenew(s))
		case f.all:
			_, _ = fmt.Fprintf(out, "not renewed: %s\n", judge.CannotRenew(s))
		}
	}
	all = slices.DeleteFunc(all, func(s judge.Service) bool { return s.Secret == "" }) // retained: nobody asks for it; or its pods make their keys
	if f.all {
		if len(all) == 0 {
			return nil, fmt.Errorf("no Service asks for a certificate%s", in(f.namespace))
		}
		return all, nil
	}
	var chosen []judge.Service
	for _, name := range f.names {
		i := slices.IndexFunc(all, func(s judge.Service) bool { return s.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("no Service %q asks for a certificate%s (annotation %s)", name, in(f.namespace), api.AnnotationSecretName)
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

func in(namespace string) string {
	if namespace == "" {
		return ""
	}
	return fmt.Sprintf(" in namespace %q", namespace)
}

func renew(ctx context.Context, c *cluster.Cluster, s judge.Service, after time.Time) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"annotations": map[string]string{api.AnnotationRenewAfter: after.Format(time.RFC3339)},
	}})
	if err != nil {
		return err
	}
	if _, err := c.Client.CoreV1().Services(s.Namespace).Patch(ctx, s.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager}); err != nil {
		return fmt.Errorf("renew %s/%s: %w", s.Namespace, s.Name, err)
	}
	return nil
}
