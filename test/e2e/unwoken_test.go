//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/e2e/handshake"
)

const (
	// wakingServers is the number of Services whose certificates are renewed at once, and wakingRounds
	// the number of renewals.
	wakingServers = 24
	wakingRounds  = 2
)

// compareWaking measures how long a rotation takes from its Secret to the pod that serves it, with woken
// kubelets and, with the rotator's --wake=false, without.
func (c *cluster) compareWaking(t *testing.T, s *scene) {
	var servers []server
	var targets []handshake.Target
	for i := range wakingServers {
		name := fmt.Sprintf("web-%d", i)
		c.apply(t, "unwoken.yaml", "web-0", name)
		servers = append(servers, server{namespace: "e2e-unwoken", service: name, secret: name + "-tls", port: 8443, reloads: true})
	}
	for _, srv := range servers {
		c.starts(t, srv, "/", "hello from "+srv.service+"-")
		its, err := c.targets(t.Context(), srv)
		require.NoError(t, err)
		targets = append(targets, its...)
	}
	require.NoError(t, c.follow(t.Context(), targets))

	s.note("from the write of a Secret to the pod that serves it (seen by a client once a second),")
	s.note(fmt.Sprintf("the certificates of %d Services renewed at once, %d rounds:", wakingServers, wakingRounds))
	s.note("woken      " + spread(c.rotateAll(t, servers, true)))
	was := c.setArgs(t, "rotator", "--wake=false")
	// A pod is synced 60 to 90 s after its last sync. So far, all pods were synced at the same time,
	// when they were woken. After one round, the times differ, as in general.
	c.renewAll(t, servers)
	s.note("not woken  " + spread(c.rotateAll(t, servers, false)))
	c.setAllArgs(t, "rotator", was)
}

// rotateAll renews the certificates of all servers in each round, and returns how long each took to be
// served. It fails the test unless pods were woken as expected.
func (c *cluster) rotateAll(t *testing.T, servers []server, woken bool) (took []time.Duration) {
	t.Helper()
	known := map[string]int{}
	for _, srv := range servers {
		known[srv.service] = len(c.writes.of(srv.namespace, srv.secret))
	}
	for range wakingRounds {
		c.renewAll(t, servers)
	}
	report, err := c.report(t.Context(), attentive)
	require.NoError(t, err)
	for _, srv := range servers {
		its, err := c.servedAfter(t.Context(), report, srv, c.writes.of(srv.namespace, srv.secret)[known[srv.service]:])
		require.NoError(t, err)
		took = append(took, its...)
		leaf, err := c.currentLeaf(t.Context(), srv.namespace, srv.service)
		require.NoError(t, err)
		pods, err := c.podsOf(t.Context(), srv)
		require.NoError(t, err)
		for i := range pods {
			assert.Equal(t, woken, strings.Contains(pods[i].Annotations[api.AnnotationLeaf], leaf), "pod %s is woken", pods[i].Name)
		}
	}
	require.Len(t, took, wakingRounds*len(servers), "each certificate is seen")
	return took
}

// renewAll renews the certificates of all servers, and waits until all are served.
func (c *cluster) renewAll(t *testing.T, servers []server) {
	t.Helper()
	before := map[string]processes{}
	for _, srv := range servers {
		var err error
		before[srv.service], err = c.processesOf(t.Context(), srv)
		require.NoError(t, err)
	}
	_, err := c.run(t.Context(), c.tools.plugin, "renew", "--all", "-n", servers[0].namespace)
	require.NoError(t, err)
	for _, srv := range servers {
		c.takesUp(t, srv, before[srv.service])
	}
}
