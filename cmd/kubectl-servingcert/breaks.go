package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/servingcert/servingcert/pkg/api"
)

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
	consumers, podsErr := c.consumers(ctx, "", services)
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
		b.WriteString(breaking(consumers, services))
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
