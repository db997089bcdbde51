package app

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/cluster"
	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/judge"
	"github.com/servingcert/servingcert/pkg/api"
)

// completer is the name under which kubectl asks a plugin to complete its arguments.
const completer = "kubectl_complete-servingcert"

// completionLimit is how many objects are asked for to complete a name.
const completionLimit = 500

type completions = func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective)

// completeFlags adds what is known of the values of flags, by their names.
func (p *plugin) completeFlags(root *cobra.Command) {
	all := []*cobra.Command{root}
	for len(all) > 0 {
		cmd := all[0]
		all = append(all[1:], cmd.Commands()...)
		for flag, complete := range map[string]completions{
			"namespace":        p.live(namespaces),
			"system-namespace": p.live(namespaces),
			"context":          p.contexts,
		} {
			if cmd.LocalNonPersistentFlags().Lookup(flag) != nil || cmd.PersistentFlags().Lookup(flag) != nil {
				_ = cmd.RegisterFlagCompletionFunc(flag, complete) // fails only where it was registered before
			}
		}
	}
}

// contexts completes the contexts of the kubeconfig.
func (p *plugin) contexts(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	raw, err := p.kube.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for name := range raw.Contexts {
		names = append(names, name)
	}
	return printable(names), cobra.ShellCompDirectiveNoFileComp
}

// live completes names that a cluster knows. It gives up after Timing.Complete, whatever
// holds it up: the API server, or a program that gets credentials.
func (p *plugin) live(list func(context.Context, *cluster.Cluster) ([]string, error)) completions {
	return func(_ *cobra.Command, given []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(context.Background(), p.timing.Complete)
		defer cancel()
		found := make(chan []string, 1)
		go func() {
			var names []string
			if c, err := p.connect(); err == nil {
				names, _ = list(ctx, c) // nothing to complete with
			}
			found <- names
		}()
		select {
		case names := <-found:
			names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(given, name) })
			return printable(names), cobra.ShellCompDirectiveNoFileComp
		case <-ctx.Done():
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
	}
}

// printable drops names that a shell or a terminal could obey, and sorts.
func printable(names []string) []string {
	names = slices.DeleteFunc(names, func(name string) bool { return api.Escape(name) != name })
	slices.Sort(names)
	return names
}

func namespaces(ctx context.Context, c *cluster.Cluster) ([]string, error) {
	list, err := c.Client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{Limit: completionLimit})
	if err != nil {
		return nil, err
	}
	names := make([]string, len(list.Items))
	for i := range list.Items {
		names[i] = list.Items[i].Name
	}
	return names, nil
}

// services are the names of those Services of the namespace that have or ask for a
// certificate.
func services(ctx context.Context, c *cluster.Cluster) ([]string, error) {
	list, err := c.Client.CoreV1().Services(c.Namespace).List(ctx, metav1.ListOptions{Limit: completionLimit})
	if err != nil {
		return nil, err
	}
	var names []string
	for i := range list.Items {
		if s, ok := judge.ServiceOf(&list.Items[i]); ok {
			names = append(names, s.Name)
		}
	}
	return names, nil
}

// allServices are the names of all Services of the namespace, those of the context if none is
// named.
func allServices(ctx context.Context, c *cluster.Cluster) ([]string, error) {
	list, err := c.Client.CoreV1().Services(c.Namespace).List(ctx, metav1.ListOptions{Limit: completionLimit})
	if err != nil {
		return nil, err
	}
	names := make([]string, len(list.Items))
	for i := range list.Items {
		names[i] = list.Items[i].Name
	}
	return names, nil
}

// atMostOne stops completing after one argument.
func atMostOne(complete completions) completions {
	return func(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return complete(cmd, args, toComplete)
	}
}

// shells are those for which there is a script.
var shells = []string{"bash", "zsh", "fish", "powershell"}

func (p *plugin) completionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "completion " + strings.Join(shells, "|"),
		Short: "Print a script with which a shell completes kubectl-servingcert.",
		Long: "For \"kubectl servingcert\", completion is kubectl's own, which asks program\n" + completer +
			": make it a link to kubectl-servingcert, in a directory of $PATH.",
		Example: `# In this shell, for kubectl-servingcert.
source <(kubectl-servingcert completion bash)

# From now on, for "kubectl servingcert".
ln -s "$(command -v kubectl-servingcert)" /usr/local/bin/` + completer,
		DisableFlagsInUseLine: true,
		ValidArgs:             shells,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || !slices.Contains(shells, args[0]) {
				return usagef("completion %s: name one shell: %s", strings.Join(args, " "), strings.Join(shells, ", "))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(p.manifests, true)
			case "zsh":
				return root.GenZshCompletion(p.manifests)
			case "fish":
				return root.GenFishCompletion(p.manifests, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(p.manifests)
			}
			return fmt.Errorf("completion: no script for %q", args[0])
		},
	}
}
