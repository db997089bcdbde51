//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	signercontroller "github.com/servingcert/servingcert/pkg/signer/controller"
	"github.com/servingcert/servingcert/test/e2e/attempts"
	"github.com/servingcert/servingcert/test/e2e/handshake"
)

const distrustNamespace = "e2e-distrust"

// acceptedInARow is the number of consecutive pods that must be accepted at the end: for several
// seconds, in which kube-apiserver calls every replica of the webhook.
const acceptedInARow = 50

// ownWebhook is servingcert's webhook, whose certificate is an ordinary one.
var ownWebhook = server{namespace: api.DefaultNamespace, service: "servingcert-webhook", secret: "servingcert-webhook-tls", port: 9443, reloads: true}

// distrust replaces the CA as if its key was stolen, and measures for how long pods in opted-in
// namespaces are rejected: from when kube-apiserver has the new bundle until the webhook serves a
// certificate of the new CA. Clients that do not reload their bundle fail from then on.
func (c *cluster) distrust(t *testing.T, s *scene) {
	// The clients' reports have been checked, and some clients only fail now: on two cores, they would
	// disturb the measurement.
	require.NoError(t, c.follow(t.Context(), []handshake.Target{}))
	c.apply(t, "distrust.yaml")
	c.askForOthers(t)
	generation, err := c.generation(t.Context())
	require.NoError(t, err)
	old, err := c.currentLeaf(t.Context(), ownWebhook.namespace, ownWebhook.service)
	require.NoError(t, err)
	before, err := c.processesOf(t.Context(), ownWebhook)
	require.NoError(t, err)

	creation := c.createPods(t.Context(), distrustNamespace)
	defer creation.stop()
	eventually(t, settling, "pods are accepted", creation.accepts(1))
	start := time.Now()
	_, err = c.run(t.Context(), c.tools.plugin, "rotate-ca", "--distrust-now", "--yes", "--wait=false", "--reason=e2e, stolen")
	require.NoError(t, err)
	requested := time.Since(start)
	eventually(t, verifying, "the webhook serves a certificate of the new CA", func(ctx context.Context) error {
		return c.servesAnother(ctx, ownWebhook, old)
	})
	creation.restart() // count from here
	eventually(t, settling, "pods are accepted again", creation.accepts(acceptedInARow))
	creation.stop()

	for message, n := range creation.unexpected {
		t.Errorf("creating a pod failed %d times for another reason than the webhook's certificate: %s", n, message)
	}
	c.isNextGeneration(t, generation)
	after, err := c.processesOf(t.Context(), ownWebhook)
	require.NoError(t, err)
	assert.Equal(t, before, after, "pods of the webhook, and restarts of each")
	s.note(fmt.Sprintf("%d Services in addition to those of other scenes; requested after %s, Secret of the webhook written after %s",
		*distrustServices, seconds(requested), seconds(c.writtenFirst(t).Sub(start))))
	s.note(creation.summary(start))
}

// isNextGeneration fails the test unless the next generation signs.
func (c *cluster) isNextGeneration(t *testing.T, generation string) {
	t.Helper()
	now, err := c.generation(t.Context())
	require.NoError(t, err)
	n, err := strconv.Atoi(generation)
	require.NoError(t, err)
	assert.Equal(t, strconv.Itoa(n+1), now, "the signing generation")
}

// writtenFirst returns when the webhook's certificate was replaced. It fails the test if more others
// were replaced before than the signer was already processing.
func (c *cluster) writtenFirst(t *testing.T) time.Time {
	t.Helper()
	issued := c.writes.of(ownWebhook.namespace, ownWebhook.secret)
	require.NotEmpty(t, issued)
	at := issued[len(issued)-1].at
	earlier := 0
	for _, name := range others() {
		if all := c.writes.of(distrustNamespace, name+"-tls"); len(all) > 1 && all[len(all)-1].at.Before(at) {
			earlier++
		}
	}
	assert.LessOrEqual(t, earlier, signercontroller.DefaultWorkers, "certificates that were replaced before the webhook's")
	return at
}

// askForOthers creates Services whose certificates are replaced at the same time as the webhook's.
func (c *cluster) askForOthers(t *testing.T) {
	t.Helper()
	for _, name := range others() {
		svc := asking(name)
		svc.Namespace = distrustNamespace
		require.NoError(t, c.admin.Create(t.Context(), svc))
	}
	eventually(t, starting, "the certificates of others", func(context.Context) error {
		for _, name := range others() {
			if len(c.writes.of(distrustNamespace, name+"-tls")) == 0 {
				return fmt.Errorf("Secret %s-tls does not exist", name)
			}
		}
		return nil
	})
}

// others returns the names of these Services.
func others() (names []string) {
	for i := range *distrustServices {
		names = append(names, fmt.Sprintf("other-%d", i))
	}
	return names
}

// servesAnother returns nil if all pods of the server are seen to serve another certificate than the old one.
func (c *cluster) servesAnother(ctx context.Context, s server, old string) error {
	svc, err := c.service(ctx, s.namespace, s.service)
	if err != nil {
		return err
	}
	leaf, _ := state.LeafOf(svc)
	if served, _ := state.ServingOf(svc); leaf == "" || leaf == old || served.Leaf != leaf {
		return fmt.Errorf("Service %s/%s: %s; %s", s.namespace, s.service, conditionText(svc, api.ConditionReady), conditionText(svc, api.ConditionServing))
	}
	return c.hasCondition(ctx, s.namespace, s.service, api.ConditionServing, "True", api.ServingCurrent)
}

// creation creates pods, as dry runs, every 100 ms until it is stopped.
type creation struct {
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu         sync.Mutex
	all        []attempts.Attempt
	from       int            // index from which accepts counts
	unexpected map[string]int // errors except that the webhook is not trusted
}

func (c *cluster) createPods(ctx context.Context, namespace string) *creation {
	ctx, cancel := context.WithCancel(ctx)
	a := &creation{cancel: cancel, unexpected: map[string]int{}}
	a.done.Go(func() {
		repeat(ctx, 100*time.Millisecond, func(attempt context.Context, _ int) {
			at := time.Now()
			err := c.injects(attempt, namespace)
			if ctx.Err() == nil {
				a.add(at, err)
			}
		})
	})
	return a
}

func (a *creation) add(at time.Time, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all = append(a.all, attempts.Attempt{At: at, Refused: err != nil})
	if err != nil && !isDistrusted(err) {
		a.unexpected[err.Error()]++
	}
}

// isDistrusted reports whether a pod was rejected because kube-apiserver does not trust the webhook's
// certificate.
func isDistrusted(err error) bool {
	return strings.Contains(err.Error(), "failed calling webhook") && strings.Contains(err.Error(), "x509: certificate signed by unknown authority")
}

// restart makes accepts count from now on.
func (a *creation) restart() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.from = len(a.all)
}

// accepts returns a check that returns nil if the last n pods were accepted.
func (a *creation) accepts(n int) func(context.Context) error {
	return func(context.Context) error {
		a.mu.Lock()
		defer a.mu.Unlock()
		if accepted := attempts.AcceptedLast(a.all[a.from:]); accepted < n {
			return fmt.Errorf("the last %d pods were accepted; want %d", accepted, n)
		}
		return nil
	}
}

// summary describes the rejected pods. It must be called after the end.
func (a *creation) summary(start time.Time) string {
	sum := attempts.Sum(a.all)
	if sum.Refused == 0 {
		return fmt.Sprintf("none of %d pods was rejected", sum.Attempts)
	}
	return fmt.Sprintf("%d of %d pods were rejected, the first after %s, the last after %s, for at most %s at a time",
		sum.Refused, sum.Attempts, seconds(sum.First.Sub(start)), seconds(sum.Last.Sub(start)), seconds(sum.Longest))
}

func (a *creation) stop() {
	a.cancel()
	a.done.Wait()
}
