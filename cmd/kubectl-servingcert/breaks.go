package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator"
)

// maxNamed bounds how many of each kind are named.
const maxNamed = 20

// confirm says who will break and asks.
func (f *rotateFlags) confirm(ctx context.Context, c *cluster, cm *corev1.ConfigMap, std streams) error {
	text, err := f.consequences(ctx, c, parseCA(cm.Data))
	if err != nil {
		return err
	}
	_, _ = io.WriteString(std.out, text)
	if f.yes {
		return nil
	}
	return agreed(std)
}

// agreed asks, and returns nil if the answer is yes.
func agreed(std streams) error {
	nobody := errors.New("nobody to ask: standard input is no terminal; --yes goes on without asking. Nothing was changed")
	if !std.terminal {
		return nobody
	}
	_, _ = io.WriteString(std.out, "Type yes to go on: ")
	answer, err := bufio.NewReader(std.in).ReadString('\n')
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return fmt.Errorf("standard input: %w", err)
	case err != nil && answer == "": // /dev/null looks like a terminal
		return nobody
	case strings.TrimSpace(answer) != "yes":
		return errors.New("not confirmed. Nothing was changed")
	}
	return nil
}

// consequences says who fails until it has reloaded.
func (f *rotateFlags) consequences(ctx context.Context, c *cluster, status caStatus) (string, error) {
	services, err := c.services(ctx, "")
	if err != nil {
		return "", err
	}
	pods, podsErr := c.mounting(ctx, services)
	if podsErr != nil && !apierrors.IsForbidden(podsErr) {
		return "", podsErr
	}
	trust, err := c.trust(ctx, f.namespace)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	if f.replaceLost {
		fmt.Fprintf(&b, "The CA cannot be used (%s). If there is a backup of Secret %s, restore that instead: it breaks nobody.\n", status.Problem, api.CASecretName)
	}
	fmt.Fprintf(&b, "A new CA signs, and every root from before is distrusted at once. Until each has what is new, clients fail to verify servers:\n")
	b.WriteString(named("Services, whose certificates are replaced", servers(services)))
	if podsErr != nil {
		fmt.Fprintf(&b, "  workloads that mount a certificate or the bundle: not known: %v\n", podsErr)
	} else {
		b.WriteString(named("workloads that mount a certificate or the bundle and get new files within 92 s", pods))
	}
	if trust != nil {
		fmt.Fprintf(&b, "  targets that the bundle is kept in (ConfigMaps, webhooks, CRDs, APIServices): %d\n", trust.Targets)
	}
	b.WriteString("  whoever keeps a copy of the bundle elsewhere\n")
	return b.String(), nil
}

// servers returns the Services that have a leaf.
func servers(services []serviceStatus) []string {
	var names []string
	for _, s := range services {
		if s.Leaf != "" {
			names = append(names, s.Namespace+"/"+s.Name)
		}
	}
	return names
}

// named is one line with how many there are and the names of at most maxNamed.
func named(what string, names []string) string {
	if len(names) == 0 {
		return "  " + what + ": none\n"
	}
	slices.Sort(names)
	shown := names[:min(len(names), maxNamed)]
	text := fmt.Sprintf("  %s: %d: %s", what, len(names), strings.Join(shown, ", "))
	if more := len(names) - len(shown); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text + "\n"
}

// mounting returns the workloads whose pods mount a Secret of one of the Services
// or the bundle: "NAMESPACE Deployment/web".
func (c *cluster) mounting(ctx context.Context, services []serviceStatus) ([]string, error) {
	secrets := map[string]bool{}
	for _, s := range services {
		secrets[s.Namespace+"/"+s.Secret] = true
	}
	found := map[string]bool{}
	list := pager.New(pager.SimplePageFunc(func(opts metav1.ListOptions) (runtime.Object, error) {
		return c.client.CoreV1().Pods("").List(ctx, opts)
	}))
	err := list.EachListItem(ctx, metav1.ListOptions{}, func(obj runtime.Object) error {
		pod := obj.(*corev1.Pod)
		if usesAny(pod, secrets) || mountsBundle(pod) {
			found[workloadName(pod)] = true
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	names := make([]string, 0, len(found))
	for name := range found {
		names = append(names, name)
	}
	return names, nil
}

func usesAny(pod *corev1.Pod, secrets map[string]bool) bool {
	mounts := rotator.FactsOf(pod).Template.Value().Mounts
	return slices.ContainsFunc(strings.Split(mounts, ","), func(name string) bool { return secrets[pod.Namespace+"/"+name] })
}

// mountsBundle reports whether the ConfigMap with the bundle is in one of the
// pod's volumes.
func mountsBundle(pod *corev1.Pod) bool {
	for _, v := range pod.Spec.Volumes {
		if v.ConfigMap != nil && v.ConfigMap.Name == api.BundleName {
			return true
		}
		if v.Projected == nil {
			continue
		}
		for _, source := range v.Projected.Sources {
			if source.ConfigMap != nil && source.ConfigMap.Name == api.BundleName {
				return true
			}
		}
	}
	return false
}

func workloadName(pod *corev1.Pod) string {
	w := rotator.FactsOf(pod).Template.Value().Workload
	if w == (rotator.Workload{}) {
		return pod.Namespace + " Pod/" + pod.Name
	}
	return pod.Namespace + " " + w.Kind + "/" + w.Name
}
