//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
)

// restartedAt is the annotation that kubectl rollout restart sets in a template.
const restartedAt = "kubectl.kubernetes.io/restartedAt"

// finding is the timeout for a server that does not reload: after --propagation-time (2m), the rotator
// reports or restarts it.
const finding = 6 * time.Minute

// readOnceScene: servers that read their files once. One is reported, the other is restarted.
func readOnceScene() *scene {
	stale := server{namespace: "e2e-readonce", service: "stale", secret: "stale-tls", port: 8443}
	rolled := server{namespace: "e2e-readonce", service: "rolled", secret: "rolled-tls", port: 8443}
	return &scene{
		name: "readonce", about: "servers that read their files once: one is reported, the other restarted", manifest: "readonce.yaml",
		servers: []server{stale, rolled},
		up: func(t *testing.T, c *cluster) {
			c.starts(t, stale, "/", "hello from stale-")
			c.serves(t, rolled, "/", "hello from rolled-")
		},
		renewed: func(t *testing.T, c *cluster, before before) {
			c.isFound(t, stale, before)
			c.isRestarted(t, rolled, before)
			if after, err := c.processesOf(t.Context(), stale); err != nil || !sameProcesses(after, before[stale.name()].processes) {
				t.Errorf("Deployment stale must not be restarted; its pods were %v and are %v (%v)", before[stale.name()].processes, after, err)
			}
		},
		rebooted: func(t *testing.T, c *cluster) {
			c.wasRestartedOnceEach(t, rolled)
			c.serves(t, rolled, "/", "hello from rolled-")
		},
	}
}

// nginxScene: a server that only reloads on a signal.
func nginxScene() *scene {
	nginx := server{namespace: "e2e-nginx", service: "nginx", secret: "nginx-tls", port: 8443}
	return &scene{
		name: "nginx", about: "nginx, mode mount: stale until it is restarted", manifest: "nginx.yaml",
		servers: []server{nginx},
		up:      func(t *testing.T, c *cluster) { c.starts(t, nginx, "/", "hello from nginx") },
		renewed: func(t *testing.T, c *cluster, before before) { c.isRestarted(t, nginx, before) },
		rebooted: func(t *testing.T, c *cluster) {
			c.wasRestartedOnceEach(t, nginx)
			c.serves(t, nginx, "/", "hello from nginx")
		},
	}
}

// isFound fails the test unless condition, event and metric report a server that still serves its old
// certificate, which clients accept.
func (c *cluster) isFound(t *testing.T, s server, before before) {
	t.Helper()
	eventually(t, finding, s.name()+" is reported", func(ctx context.Context) error {
		if err := c.hasCondition(ctx, s.namespace, s.service, api.ConditionServing, "False", api.ServingStale); err != nil {
			return err
		}
		said, err := c.events(ctx, s.namespace, "Deployment", s.service, "ServesOldCertificate")
		if err == nil && !strings.Contains(said, api.AnnotationOnRotate) {
			err = fmt.Errorf("event ServesOldCertificate lacks the remedy: %s", said)
		}
		return err
	})
	eventually(t, settling, "the metric", func(ctx context.Context) error {
		n, err := c.metric(ctx, "rotator", "servingcert_consumers", map[string]string{"namespace": s.namespace, "state": "stale"})
		if err == nil && n < 1 {
			err = fmt.Errorf("servingcert_consumers of %s that are stale: %v", s.namespace, n)
		}
		return err
	})
	require.NoError(t, c.fetches(t.Context(), s.url("/"), "hello from "+s.service, before[s.name()].leaf, s.name()))
}

// isRestarted fails the test unless the rotator restarts the Deployment, as kubectl rollout restart does,
// and its pods then serve the certificate in the Secret.
func (c *cluster) isRestarted(t *testing.T, s server, before before) {
	t.Helper()
	eventually(t, finding, s.name()+" is restarted", func(ctx context.Context) error {
		deployment := &appsv1.Deployment{}
		if err := c.admin.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: s.service}, deployment); err != nil {
			return err
		}
		if deployment.Spec.Template.Annotations[restartedAt] == "" {
			svc, err := c.service(ctx, s.namespace, s.service)
			return errors.Join(fmt.Errorf("Deployment %s was not restarted; %s", s.service, conditionText(svc, api.ConditionServing)), err)
		}
		if err := c.rolledOut(ctx, s.namespace, s.service); err != nil {
			return err
		}
		return c.hasCondition(ctx, s.namespace, s.service, api.ConditionServing, "True", api.ServingCurrent)
	})
	after, err := c.processesOf(t.Context(), s)
	require.NoError(t, err)
	for uid := range after {
		if _, old := before[s.name()].processes[uid]; old {
			t.Errorf("%s: pod %s, from before the restart, still exists", s.name(), uid)
		}
	}
	_, err = c.events(t.Context(), s.namespace, "Deployment", s.service, "Restarted")
	require.NoError(t, err)
	c.serves(t, s, "/", "hello from "+s.service)
}

// wasRestartedOnceEach fails the test unless the Deployment was restarted at most once for each of its two
// new certificates, even if the leader of the rotators changed.
func (c *cluster) wasRestartedOnceEach(t *testing.T, s server) {
	t.Helper()
	eventually(t, finding, s.name()+" has its last certificate", func(ctx context.Context) error {
		return c.hasCondition(ctx, s.namespace, s.service, api.ConditionServing, "True", api.ServingCurrent)
	})
	sets := &appsv1.ReplicaSetList{}
	require.NoError(t, c.admin.List(t.Context(), sets, client.InNamespace(s.namespace), client.MatchingLabels{"app": s.service}))
	// The second certificate may exist before the restart for the first.
	if n := len(sets.Items); n < 2 || n > 3 {
		t.Errorf("Deployment %s has had %d templates; want the first one, and at most one for each of two new certificates", s.service, n)
	}
}

func sameProcesses(a, b processes) bool {
	for uid, restarts := range a {
		if was, ok := b[uid]; !ok || was != restarts {
			return false
		}
	}
	return len(a) == len(b)
}
