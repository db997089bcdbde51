//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/e2e/handshake"
)

// command is a program that runs in the background.
type command struct {
	out  string
	err  error
	done chan struct{}
}

// begin starts a program in the background.
func (c *cluster) begin(t *testing.T, program string, args ...string) *command {
	cmd := &command{done: make(chan struct{})}
	go func() {
		defer close(cmd.done)
		cmd.out, cmd.err = c.run(t.Context(), program, args...) // killed when the test ends
	}()
	t.Cleanup(func() { <-cmd.done })
	return cmd
}

// ends fails the test unless the command succeeds within the limit.
func (cmd *command) ends(t *testing.T, limit time.Duration) {
	t.Helper()
	select {
	case <-cmd.done:
		require.NoError(t, cmd.err)
	case <-time.After(limit):
		t.Fatalf("not done within %s", limit)
	}
	for line := range strings.Lines(cmd.out) {
		t.Log(strings.TrimSpace(line))
	}
}

// generation returns the number of the generation that signs.
func (c *cluster) generation(ctx context.Context) (string, error) {
	status := &corev1.ConfigMap{}
	err := c.admin.Get(ctx, client.ObjectKey{Namespace: api.DefaultNamespace, Name: api.CAStatusName}, status)
	return status.Data[api.CAGeneration], err
}

// isOfGeneration reports whether a generation of the CA has this common name.
func isOfGeneration(issuer, generation string) bool {
	return strings.HasPrefix(issuer, "servingcert CA "+generation+" ")
}

// isSignedBy returns nil if the server's pods serve certificates of the generation.
func (c *cluster) isSignedBy(ctx context.Context, s server, generation string) error {
	report, err := c.report(ctx, attentive)
	if err != nil {
		return err
	}
	pods, err := c.podsOf(ctx, s)
	var errs []error
	for i := range pods {
		account, _ := report.Of(s.atPod(&pods[i]))
		if issuer := account.Latest().Issuer; !isOfGeneration(issuer, generation) {
			errs = append(errs, fmt.Errorf("pod %s/%s serves a certificate of %q", s.namespace, pods[i].Name, issuer))
		}
	}
	return errors.Join(err, errors.Join(errs...))
}

// noFailure fails the test if any handshake of a client has failed. It returns the number of handshakes,
// and the first failures.
func (c *cluster) noFailure(t *testing.T) (count string) {
	t.Helper()
	handshakes, failures, slowest := 0, 0, time.Duration(0)
	var first []string
	for _, name := range clients {
		report, err := c.report(t.Context(), name)
		require.NoError(t, err)
		n, failed := report.Totals()
		require.NotZero(t, n, "client %s made no handshakes", name)
		handshakes += n
		failures += failed
		slowest = max(slowest, report.Slowest())
		for _, account := range report.Accounts {
			assert.NotZero(t, account.Handshakes, "client %s with %s", name, account.Target)
			first = append(first, failuresOf(name, account)...)
		}
	}
	count = fmt.Sprintf("%d handshakes of %d clients, the slowest took %s, %d failed", handshakes, len(clients), seconds(slowest), failures)
	if failures > 0 {
		t.Errorf("%s:\n%s", count, strings.Join(first, "\n"))
		count += ": " + strings.Join(first[:min(3, len(first))], "; ")
	}
	return count
}

// failuresOf describes the first failures of a client with a target.
func failuresOf(client string, account handshake.Account) []string {
	var first []string
	for _, f := range account.Failures[:min(3, len(account.Failures))] {
		first = append(first, fmt.Sprintf("client %s: %s at %s: failed at %s after %s: %s",
			client, account.Target.Name, account.Target.Address, f.At.Format(time.RFC3339Nano), f.Took, f.Err))
	}
	return first
}

// checkSuccession fails the test unless another generation of the CA signs, client of-old still has only
// the first root, and no handshake has failed.
func (c *cluster) checkSuccession(t *testing.T, s *scene) {
	generation, err := c.generation(t.Context())
	require.NoError(t, err)
	require.Equal(t, "2", generation)
	for name, bundles := range map[string]int{attentive: 2, ofOld: 1} {
		report, err := c.report(t.Context(), name)
		require.NoError(t, err)
		assert.Len(t, report.Bundles, bundles, "different bundles that client %s read", name)
	}
	s.note(c.trustLag(t))
	eventually(t, verifying, "servingcert's own webhook serves its new certificate", func(ctx context.Context) error {
		return c.hasCondition(ctx, ownWebhook.namespace, ownWebhook.service, api.ConditionServing, "True", api.ServingCurrent)
	})
	processes, err := c.processesOf(t.Context(), ownWebhook)
	require.NoError(t, err)
	for pod, restarts := range processes {
		assert.Zero(t, restarts, "restarts of pod %s of the webhook", pod)
	}
	s.note(c.noFailure(t))
}

// trustLag returns how long both roots took from the ClusterTrustBundle to the client that mounts it. The
// kubelet is not woken for it, and caches a bundle that is projected by name for five minutes
// (kubernetes#141439).
func (c *cluster) trustLag(t *testing.T) string {
	t.Helper()
	var read time.Time
	eventually(t, verifying, "the client that mounts the ClusterTrustBundle has both roots", func(ctx context.Context) error {
		report, err := c.report(ctx, clusterWide)
		if err == nil && len(report.Bundles) != 2 {
			err = fmt.Errorf("the client has read %d different bundles", len(report.Bundles))
		}
		if err == nil {
			read = report.Bundles[1]
		}
		return err
	})
	bundle, err := c.certificates.ClusterTrustBundles().Get(t.Context(), api.TrustBundleName, metav1.GetOptions{})
	require.NoError(t, err)
	var written time.Time // time of the last change, in whole seconds
	for _, m := range bundle.ManagedFields {
		if m.Time != nil && m.Time.After(written) {
			written = m.Time.Time
		}
	}
	lag := read.Sub(written)
	assert.Less(t, lag, api.KubeletUpdates+2*time.Second, "the kubelet's longest delay, and rounding to seconds")
	return fmt.Sprintf("a mounted ClusterTrustBundle has the new root after %s", lag.Round(time.Second))
}

// propagation returns how long each certificate took from its Secret to each pod of reloading servers.
func (c *cluster) propagation(ctx context.Context, scenes []*scene) ([]time.Duration, error) {
	report, err := c.report(ctx, attentive)
	if err != nil {
		return nil, err
	}
	var took []time.Duration
	for _, s := range scenes {
		for _, srv := range s.withSecret() {
			if !srv.reloads || s.left != "" {
				continue
			}
			its, err := c.servedAfter(ctx, report, srv, renewals(c.writes.of(srv.namespace, srv.secret)))
			if err != nil {
				return nil, err
			}
			took = append(took, its...)
		}
	}
	return took, nil
}

// renewals returns all certificates except the first, with which a pod starts.
func renewals(all []written) []written { return all[min(1, len(all)):] }
