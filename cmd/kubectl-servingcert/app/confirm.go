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
	known, err := f.known(ctx, c)
	if err != nil {
		return err
	}
	if f.replaceLost {
		known.Lost = status.ParseCA(cm.Data).Problem
	}
	text, breaks := status.Consequences, status.BreaksOf
	if f.clients {
		text, breaks = status.IdentityConsequences, status.IdentityBreaksOf
	}
	_, _ = io.WriteString(f.text.out, text(known))
	data := breaks(known)
	f.done.Breaks = &data
	if f.yes || f.dryRun {
		return nil
	}
	return askConfirmation(f.text)
}

// known reads the objects that use a certificate or the bundle; with --clients, only the pods.
func (f *rotateFlags) known(ctx context.Context, c *cluster.Cluster) (k status.DistrustSituation, err error) {
	if !f.clients {
		if k.Services, err = c.SignedServices(ctx); err != nil {
			return k, err
		}
	}
	k.Consumers, k.ConsumersErr = c.Consumers(ctx, "", k.Services)
	if k.ConsumersErr != nil && !apierrors.IsForbidden(k.ConsumersErr) {
		return k, k.ConsumersErr
	}
	if !f.clients {
		k.Trust, err = c.Trust(ctx, f.namespace)
	}
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
