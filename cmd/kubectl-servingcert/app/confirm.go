package app

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/cluster"
	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/status"
)

// confirm prints what breaks, and asks for confirmation.
func (f *rotateFlags) confirm(ctx context.Context, c *cluster.Cluster, cm *corev1.ConfigMap) error {
	if f.clients {
		return f.confirmClients()
	}
	known, err := f.known(ctx, c)
	if err != nil {
		return err
	}
	if f.replaceLost {
		known.Lost = status.ParseCA(cm.Data).Problem
	}
	_, _ = io.WriteString(f.text.out, status.Consequences(known))
	breaks := status.BreaksOf(known)
	f.done.Breaks = &breaks
	if f.yes || f.dryRun {
		return nil
	}
	return askConfirmation(f.text)
}

// confirmClients is confirm for the CA that signs the identities of pods.
func (f *rotateFlags) confirmClients() error {
	_, _ = io.WriteString(f.text.out, "Within 92 s, no server accepts an identity that was signed before: pods that call Services with servingcert.dev/clients must be restarted.\n")
	if f.yes || f.dryRun {
		return nil
	}
	return askConfirmation(f.text)
}

// known reads the objects that use a certificate or the bundle.
func (f *rotateFlags) known(ctx context.Context, c *cluster.Cluster) (k status.DistrustSituation, err error) {
	if k.Services, err = c.SignedServices(ctx); err != nil {
		return k, err
	}
	k.Consumers, k.ConsumersErr = c.Consumers(ctx, "", k.Services)
	if k.ConsumersErr != nil && !apierrors.IsForbidden(k.ConsumersErr) {
		return k, k.ConsumersErr
	}
	k.Trust, err = c.Trust(ctx, f.namespace)
	return k, err
}

// askConfirmation returns nil if the user answers yes.
func askConfirmation(std streams) error {
	noTerminal := errors.New("cannot ask for confirmation: standard input is not a terminal; use --yes to skip the question. Nothing was changed")
	if !std.terminal {
		return noTerminal
	}
	_, _ = io.WriteString(std.out, "Type yes to continue: ")
	answer, err := bufio.NewReader(std.in).ReadString('\n')
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return fmt.Errorf("standard input: %w", err)
	case err != nil && answer == "": // /dev/null passes as a terminal
		return noTerminal
	case strings.TrimSpace(answer) != "yes":
		return errors.New("not confirmed. Nothing was changed")
	}
	return nil
}
