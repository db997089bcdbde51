//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// proxyScene: a plaintext program also serves TLS, through the proxy. Clients make handshakes all the time,
// and a renewal restarts nothing.
func proxyScene() *scene {
	nginx := server{namespace: "e2e-proxy", service: "nginx", secret: "nginx-tls", port: 15444, reloads: true}
	s := &scene{
		name: "proxy", about: "a plaintext nginx, with TLS by ports sc-tls and sc-any", manifest: "proxy.yaml",
		servers: []server{nginx},
	}
	everyPort := func(t *testing.T, c *cluster) {
		c.serves(t, nginx, "/", plainNginx)
		c.servesAt(t, nginx, "https://"+nginx.name()+":8000/", plainNginx, nginx.name())
		for _, port := range []string{"80", "8000"} {
			c.servesPlaintext(t, "http://"+nginx.name()+":"+port+"/", plainNginx)
		}
	}
	s.up = func(t *testing.T, c *cluster) {
		c.starts(t, nginx, "/", plainNginx)
		c.keepsKeyFromProgram(t, nginx)
		everyPort(t, c)
		s.note(c.plaintextClients(t, nginx))
	}
	s.renewed = func(t *testing.T, c *cluster, _ before) {
		c.measureWoken(t, s, nginx)
		everyPort(t, c)
	}
	s.succeeded = everyPort
	s.alone = func(t *testing.T, c *cluster) { s.note(c.leaves(t, nginx)) }
	return s
}

// leaves restarts a server whose program exits 15 s after its pod was deleted (preStop), while clients make
// handshakes, and fails the test if one fails: the proxy serves as long as the program does. It returns the
// number of handshakes.
func (c *cluster) leaves(t *testing.T, s server) string {
	t.Helper()
	before := c.shaken(t, s.target())
	c.rollsOut(t, s)
	after := c.shaken(t, s.target())
	require.Greater(t, after.handshakes, before.handshakes)
	require.Equal(t, before.failed, after.failed, "handshakes failed while pods terminated:\n%s", strings.Join(after.first, "\n"))
	return fmt.Sprintf("pods that exit 15 s after their deletion: %d handshakes, none failed", after.handshakes-before.handshakes)
}

const plainNginx = "hello from a plain nginx"

// servesPlaintext fails the test unless a client gets the response without TLS.
func (c *cluster) servesPlaintext(t *testing.T, url, body string) {
	t.Helper()
	eventually(t, settling, "fetch "+url, func(ctx context.Context) error {
		r, err := c.fetch(ctx, url)
		if err == nil && (!strings.HasPrefix(r.Body, body) || r.Leaf != "") {
			err = fmt.Errorf("GET %s: status %d, %q, leaf %q; want %q without TLS", url, r.Status, r.Body, r.Leaf, body)
		}
		return err
	})
}

// keepsKeyFromProgram fails the test unless the key is mounted only into the proxy, and the proxy has no
// token.
func (c *cluster) keepsKeyFromProgram(t *testing.T, s server) {
	t.Helper()
	pods, err := c.podsOf(t.Context(), s)
	require.NoError(t, err)
	for i := range pods {
		pod := &pods[i]
		proxy, ok := api.ProxyOf(pod)
		require.True(t, ok, pod.Name)
		secrets := map[string]bool{}
		for _, v := range pod.Spec.Volumes {
			holds := func(p corev1.VolumeProjection) bool { return p.Secret != nil }
			secrets[v.Name] = v.Projected != nil && strings.HasPrefix(v.Name, api.ProxyContainer) && len(v.Projected.Sources) > 0 && holds(v.Projected.Sources[0])
		}
		mounts := func(container *corev1.Container) (n int) {
			for _, m := range container.VolumeMounts {
				if secrets[m.Name] {
					n++
				}
			}
			return n
		}
		assert.Equal(t, 1, mounts(proxy.Container), "the proxy of %s", pod.Name)
		for j := range pod.Spec.Containers {
			assert.Zero(t, mounts(&pod.Spec.Containers[j]), "the program of %s", pod.Name)
		}
		for _, m := range proxy.VolumeMounts {
			assert.False(t, strings.HasPrefix(m.Name, "kube-api-access"), "the proxy of %s has a token", pod.Name)
		}
	}
}

// plaintextClients fails the test unless the command lists the plaintext client.
func (c *cluster) plaintextClients(t *testing.T, s server) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), c.tools.plugin, "clients", s.service, "-n", s.namespace)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.kubeconfig)
	out, _ := cmd.CombinedOutput() // exit code 1: there are plaintext clients
	assert.Equal(t, 1, cmd.ProcessState.ExitCode(), string(out))
	assert.Contains(t, string(out), clientsNamespace+" Deployment/"+attentive, string(out))
	return "kubectl servingcert clients lists " + clientsNamespace + " Deployment/" + attentive
}
