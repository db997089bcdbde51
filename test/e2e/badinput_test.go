//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"testing"

	"github.com/servingcert/servingcert/pkg/api"
)

// judged is the condition of a Service of badinput.yaml, and the state of its pod in the
// metric; "" for no pod.
type judged struct {
	service, status, reason, state string
}

// badInputScene: the rotator reports each of these servers, and does not act on them.
func badInputScene() *scene {
	const namespace = "e2e-badinput"
	want := []judged{
		{"plain", "False", api.ServingPlaintext, "plaintext"},
		{"foreign", "False", api.ServingForeign, "foreign"},
		{"closed", "Unknown", api.ServingUnreachable, "unreachable"},
		{"demanding", "True", api.ServingCurrent, "current"},
		{"on-host", "True", api.ServingCurrent, "current"},
		{"no-selector", "True", api.ServingCurrent, "current"},
		{"nobody", "False", api.ServingNoConsumers, ""},
	}
	judgedAs := func(t *testing.T, c *cluster) {
		for _, w := range want {
			eventually(t, propagating+verifying, w.service, func(ctx context.Context) error {
				return c.hasCondition(ctx, namespace, w.service, api.ConditionServing, w.status, w.reason)
			})
		}
		counts := map[string]float64{}
		for _, w := range want {
			counts[w.state]++
		}
		delete(counts, "")
		eventually(t, verifying, "the metric", func(ctx context.Context) error {
			for state, n := range counts {
				got, err := c.metric(ctx, "rotator", "servingcert_consumers", map[string]string{"namespace": namespace, "state": state})
				if err != nil || got != n {
					return fmt.Errorf("servingcert_consumers of %s that are %s: %v, want %v (%w)", namespace, state, got, n, err)
				}
			}
			return nil
		})
	}
	onHost := server{namespace: namespace, service: "on-host", secret: "on-host-tls", port: 18443, reloads: true}
	return &scene{
		name: "badinput", about: "plaintext, foreign, closed, client certificate, hostNetwork, no selector", manifest: "badinput.yaml",
		servers: []server{onHost},
		up:      func(t *testing.T, c *cluster) { c.starts(t, onHost, "/", "hello from ") },
		renewed: func(t *testing.T, c *cluster, _ before) { judgedAs(t, c) },
	}
}
