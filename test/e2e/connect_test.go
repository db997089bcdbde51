//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

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
	c.apply(t, "protocolsunchanged.yaml", "SERVICES", strconv.Quote(strings.Join(services, ",")))
	eventually(t, starting, "the unchanged clients", func(ctx context.Context) error { return c.rolledOut(ctx, clientsNamespace, unchanged) })
	eventually(t, starting, "the Job of a client that connects", func(ctx context.Context) error { return c.hasSucceeded(ctx, clientsNamespace, "once") })
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
	return c.leavesAsTLS(t, connected, len(speakers), func() {
		for range 3 {
			for _, target := range connectTargets() {
				assert.NoError(t, c.ask(t.Context(), connected, http.MethodPost, "shake", target))
			}
		}
	})
}

// unchangedConnect fails the test unless none of the unchanged clients has failed so far, and all that leaves their pod
// is TLS.
func (c *cluster) unchangedConnect(t *testing.T) string {
	t.Helper()
	const calls = 10 * time.Second // each client makes several
	note := c.leavesAsTLS(t, unchanged, 6, func() { time.Sleep(calls) })
	c.restartsNone(t, unchanged)
	return note + "; curl (twice), psql, redis-cli, Node.js, Java and Python call since before renewal and succession, and none failed"
}

// restartsNone fails the test if a container of a client's only pod has ended.
func (c *cluster) restartsNone(t *testing.T, name string) {
	t.Helper()
	pods, err := c.pods(t.Context(), clientsNamespace, map[string]string{"app": name})
	require.NoError(t, err)
	require.Len(t, pods, 1)
	for _, status := range pods[0].Status.ContainerStatuses {
		assert.Zero(t, status.RestartCount, "%s: %+v", status.Name, status.LastTerminationState)
	}
}

// leavesAsTLS fails the test unless each connection that the pod of a client opens during the calls begins with a
// ClientHello, and they lead to that many addresses.
func (c *cluster) leavesAsTLS(t *testing.T, name string, addresses int, calls func()) string {
	t.Helper()
	pods, err := c.pods(t.Context(), clientsNamespace, map[string]string{"app": name})
	require.NoError(t, err)
	require.Len(t, pods, 1)
	pids, err := processesIn(pods[0].UID, "proxy")
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
	calls()
	stop()
	got := <-done
	require.NoError(t, got.err)
	servers := map[netip.Addr]int{}
	for _, s := range got.sent {
		assert.Equal(t, "\x16\x03", string(s.first[:min(2, len(s.first))]), "to %s: %q", s.to, s.first)
		servers[s.to.Addr()]++
	}
	assert.Len(t, servers, addresses, "%v", got.sent)
	return fmt.Sprintf("%d connections left the pod of client %s, to %d Services: all began with a ClientHello", len(got.sent), name, len(servers))
}

// disconnect takes the proxies from the clients, which then call the programs in plaintext by the same names.
func (c *cluster) disconnect(t *testing.T) {
	t.Helper()
	pod, err := c.clients.CoreV1().Pods(clientsNamespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app=" + connected})
	require.NoError(t, err)
	require.Len(t, pod.Items, 1)
	proxy, ok := api.ProxyOf(&pod.Items[0])
	require.True(t, ok)
	assert.Len(t, proxy.Connects, 2*len(speakers))
	c.withoutProxy(t, connected)
	c.withoutProxy(t, unchanged)
	c.exchangeFrom(t, connected, connectTargets())
}

// withoutProxy removes annotation connect from a client, and waits until its only pod has no proxy.
func (c *cluster) withoutProxy(t *testing.T, name string) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"spec":{"template":{"metadata":{"annotations":{%q:null}}}}}`, api.AnnotationConnect)
	_, err := c.clients.AppsV1().Deployments(clientsNamespace).Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)
	eventually(t, starting, name+" without annotation connect", func(ctx context.Context) error {
		pods, err := c.pods(ctx, clientsNamespace, map[string]string{"app": name})
		if err := errors.Join(err, c.rolledOut(ctx, clientsNamespace, name)); err != nil {
			return err
		}
		if len(pods) != 1 || len(pods[0].Spec.InitContainers) > 0 {
			return fmt.Errorf("%d pods of %s, want 1 without a proxy", len(pods), name)
		}
		return nil
	})
}
