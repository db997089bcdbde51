package app

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/cluster"
	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/status"
	"github.com/servingcert/servingcert/pkg/api"
)

// completer is the name under which kubectl runs a plugin to complete its arguments.
const completer = "kubectl_complete-servingcert"

// completionLimit is the maximum number of objects that are listed to complete a name.
const completionLimit = 500

type completions = func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective)

// completeFlags registers completions for the values of flags, by their names.
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
				_ = cmd.RegisterFlagCompletionFunc(flag, complete) // fails only if it is registered already
			}
		}
	}
}

// contexts completes the names of the kubeconfig's contexts.
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

// live completes names of a cluster's objects. It gives up after Timing.Complete, also if a credential
// plugin blocks.
func (p *plugin) live(list func(context.Context, *cluster.Cluster) ([]string, error)) completions {
	return func(_ *cobra.Command, given []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(context.Background(), p.timing.Complete)
		defer cancel()
		found := make(chan []string, 1)
		go func() {
			var names []string
			if c, err := p.connect(); err == nil {
				names, _ = list(ctx, c) // an error yields no completions
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

// printable returns, sorted, the names without characters that a shell or a terminal interprets.
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

// services returns the names of the Services in the namespace that have or request a certificate.
func services(ctx context.Context, c *cluster.Cluster) ([]string, error) {
	return servicesWith(ctx, c, func(svc *corev1.Service) bool { _, ok := status.ServiceOf(svc); return ok })
}

// allServices returns the names of all Services in the namespace (default: the context's).
func allServices(ctx context.Context, c *cluster.Cluster) ([]string, error) {
	return servicesWith(ctx, c, func(*corev1.Service) bool { return true })
}

func servicesWith(ctx context.Context, c *cluster.Cluster, wanted func(*corev1.Service) bool) ([]string, error) {
	list, err := c.Client.CoreV1().Services(c.Namespace).List(ctx, metav1.ListOptions{Limit: completionLimit})
	if err != nil {
		return nil, err
	}
	var names []string
	for i := range list.Items {
		if wanted(&list.Items[i]) {
			names = append(names, list.Items[i].Name)
		}
	}
	return names, nil
}

// atMostOne completes only the first argument.
func atMostOne(complete completions) completions {
	return func(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return complete(cmd, args, toComplete)
	}
}

// shells are the shells with a completion script.
var shells = []string{"bash", "zsh", "fish", "powershell"}

func (p *plugin) completionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "completion " + strings.Join(shells, "|"),
		Short: "Print a shell completion script for kubectl-servingcert.",
		Long: "To complete \"kubectl servingcert\", kubectl runs " + completer +
			":\ncreate a link of that name to kubectl-servingcert, in a directory of $PATH.",
		Example: `# Complete kubectl-servingcert in this shell.
source <(kubectl-servingcert completion bash)

# Complete "kubectl servingcert" in every shell that completes kubectl.
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
