//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/e2e/handshake"
)

// connect deploys a client that calls all programs of scene protocols without TLS, by their names, and whose proxy
// connects to them.
func (c *cluster) connect(t *testing.T) {
	t.Helper()
	var services []string
	for _, p := range speakers {
		services = append(services, p.name+"."+protocolsNamespace)
	}
	c.apply(t, "protocolsconnect.yaml", "SERVICES", strconv.Quote(strings.Join(services, ",")))
	eventually(t, starting, "the client that connects", func(ctx context.Context) error { return c.rolledOut(ctx, clientsNamespace, connected) })
	c.exchangeFrom(t, connected, connectTargets())
}

// connectTargets are the plaintext ports by the names that the client's hosts file has. (With a dot at the end, the
// resolver would ask DNS.)
func connectTargets() (all []handshake.Target) {
	for i, p := range speakers {
		target := p.target(80, p.exchanges[0], true)
		name := p.name + "." + protocolsNamespace
		target.Address = []string{name, name + ".svc", name + ".svc.cluster.local"}[i%3] + ":80"
		all = append(all, target)
	}
	return all
}

// connects fails the test unless all that leaves the client's pod is TLS: it calls each program once more meanwhile.
func (c *cluster) connects(t *testing.T) string {
	t.Helper()
	pods, err := c.pods(t.Context(), clientsNamespace, map[string]string{"app": connected})
	require.NoError(t, err)
	require.Len(t, pods, 1)
	pids, err := processesIn(pods[0].UID, "client")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	type result struct {
		sent []sent
		err  error
	}
	done := make(chan result, 1)
	go func() {
		all, err := sends(ctx, pids[0])
		done <- result{all, err}
	}()
	for range 3 {
		for _, target := range connectTargets() {
			assert.NoError(t, c.ask(t.Context(), connected, http.MethodPost, "shake", target))
		}
	}
	stop()
	got := <-done
	require.NoError(t, got.err)
	servers := map[netip.Addr]int{}
	for _, s := range got.sent {
		assert.Equal(t, "\x16\x03", string(s.first[:min(2, len(s.first))]), "to %s: %q", s.to, s.first)
		servers[s.to.Addr()]++
	}
	assert.Len(t, servers, len(speakers), "%v", got.sent)
	return fmt.Sprintf("%d connections left the pod of a client without TLS, to %d Services: all began with a ClientHello", len(got.sent), len(servers))
}

// disconnect deletes the client that connects: the programs are about to have no TLS.
func (c *cluster) disconnect(t *testing.T) {
	t.Helper()
	pod, err := c.clients.CoreV1().Pods(clientsNamespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app=" + connected})
	require.NoError(t, err)
	require.Len(t, pod.Items, 1)
	proxy, ok := api.ProxyOf(&pod.Items[0])
	require.True(t, ok)
	assert.Len(t, proxy.Connects, 2*len(speakers))
	require.NoError(t, c.clients.AppsV1().Deployments(clientsNamespace).Delete(t.Context(), connected, metav1.DeleteOptions{}))
}
