package app

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/status"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
)

// TestTableOfServedPorts: what verify --any prints of groups of ports, and of what it has not dialled.
func TestTableOfServedPorts(t *testing.T) {
	end := time.Date(2026, 12, 24, 18, 0, 0, 0, time.UTC)
	port := func(workload, pod string) status.ServedPort {
		return status.ServedPort{PodPort: status.PodPort{Namespace: "shop", Workload: "Deployment/" + workload, Pod: pod, Port: 8443}, Serves: probe.TLS,
			Leaf: workload, Issuer: "Corp", NotAfter: &end, TLS: &probe.HandshakeNames{Version: "TLS 1.3"}, Secret: workload + "-tls", SecretState: status.InSecret, Trust: status.TrustSecret}
	}
	old, plain, silent := port("old", "c"), port("plain", "d"), port("silent", "e")
	old.SecretState, old.Trust, old.Problems = status.OlderThanSecret, status.TrustNone, []string{status.ProblemStale, status.ProblemUntrusted}
	plain.Serves, silent.Serves, silent.Cause = probe.Plaintext, probe.NoAnswer, string(probe.CauseTimeout)
	for _, p := range []*status.ServedPort{&plain, &silent} {
		p.Issuer, p.NotAfter, p.TLS, p.Secret, p.SecretState, p.Trust = "", nil, nil, "", status.NoSecret, ""
	}
	plain.Problems, silent.Problems = []string{status.ProblemPlaintext}, []string{status.ProblemUnreachable}
	unseen := status.Unseen{PodsNotReady: 1, ServicesWithoutSelector: 2}
	write := func(r status.PortReport, namespace string) string {
		var out bytes.Buffer
		f := &verifyFlags{plugin: &plugin{}}
		f.out, f.screen = &out, screen{to: &out}
		require.NoError(t, f.writePorts(r, namespace))
		return out.String()
	}
	assert.Equal(t, `NAMESPACE  WORKLOAD           PORT  PODS  SERVES                ISSUER  UNTIL       SECRET            VERIFIED BY  PROBLEMS
shop       Deployment/web     8443  2     TLS 1.3               Corp    2026-12-24  web-tls: current  secret       -
shop       Deployment/old     8443  1     TLS 1.3               Corp    2026-12-24  old-tls: older    none         stale,untrusted
shop       Deployment/plain   8443  1     plaintext             -       -           -                 -            plaintext
shop       Deployment/silent  8443  1     unreachable: timeout  -       -           -                 -            unreachable

5 ports of ready pods behind Services: 3 serve TLS, 1 plaintext, 1 gave no answer that was understood. 1 pod not ready, and so not dialled. 2 Services without a selector not dialled.
`, write(status.PortReport{Ports: []status.ServedPort{port("web", "a"), port("web", "b"), old, plain, silent}, Unseen: unseen}, "shop"))
	assert.Equal(t, "No Service selects a ready pod in namespace \"shop\". 1 pod not ready, and so not dialled. 2 Services without a selector not dialled.\n", write(status.PortReport{Unseen: unseen}, "shop"))
	assert.Equal(t, "No Service selects a ready pod in any namespace.\n", write(status.PortReport{}, ""))
}
