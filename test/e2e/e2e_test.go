//go:build e2e

// Package e2e runs scenes with real workloads on a real cluster, with servingcert installed
// from deploy/install.yaml: make e2e.
//
// The cluster is that of $KUBECONFIG or, by default, a node that hack/node starts on this
// machine. The scenes run concurrently, each in its own namespaces (manifests), while client
// pods connect to all of their servers all the time. [TestScenes] defines the order of steps.
package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/e2e/handshake"
	"github.com/servingcert/servingcert/test/e2e/pick"
)

func TestScenes(t *testing.T) {
	c := the
	install := &scene{name: "install", about: "unchanged deploy/install.yaml, two replicas each"}
	succession := &scene{name: "succession", about: "a complete forced CA succession under load"}
	kubelet := kubeletScene()
	reboot := &scene{name: "reboot", about: "control plane and servingcert killed, part by part, under load"}
	unwoken := &scene{name: "unwoken", about: "how soon a rotation is served, with and without waking", onlyNamed: true}
	distrust := &scene{name: "distrust", about: "a CA whose key was stolen: for how long pods are rejected"}
	logs := &scene{name: "logs", about: "no private key in logs, or in etcd outside of Secrets; no forbidden request of servingcert"}
	all := scenes()
	shown = append(append([]*scene{install, kubelet}, all...), succession, reboot, unwoken, distrust, logs)
	if c.machine == nil {
		reboot.left = "needs the machine of the control plane"
	}
	for _, s := range shown[1:] {
		if s.leftOut != nil {
			s.left = s.leftOut(c)
		}
	}
	require.NoError(t, leaveOut(shown, *onlyScenes))

	install.step(t, func(t *testing.T) {
		c.install(t)
		c.adjust(t)
		if c.machine != nil {
			c.identify(t)
		}
		install.note("afterwards the signer has shorter waits: " + strings.Join(signerArgs, " "))
		c.startScraping(t)
		c.startClients(t)
	})
	if install.failed {
		t.FailNow()
	}
	var served string // the kubelet's certificate
	kubelet.step(t, func(t *testing.T) { served = c.kubeletAsks(t, kubelet) })
	together(t, "up", all, func(t *testing.T, s *scene) {
		c.apply(t, s.manifest)
		s.up(t, c)
	})

	require.NoError(t, c.followAll(t.Context(), all))
	befores := map[*scene]before{}
	for _, s := range all {
		if s.left == "" && !s.failed {
			befores[s] = c.before(t, s)
		}
	}
	// The new root propagates to the clients at the same time as the renewed certificates.
	rotation := &command{}
	if succession.left == "" {
		rotation = c.begin(t, c.tools.plugin, "rotate-ca", "--reason=e2e")
	}
	_, err := c.run(t.Context(), c.tools.plugin, "renew", "--all", "-A")
	require.NoError(t, err)
	together(t, "renewed", all, func(t *testing.T, s *scene) {
		for _, srv := range s.withSecret() {
			was := befores[s][srv.name()]
			leaf, err := c.currentLeaf(t.Context(), srv.namespace, srv.service)
			require.NoError(t, err)
			require.NotEqual(t, was.leaf, leaf, "the certificate of %s was not renewed", srv.name())
			if srv.reloads {
				c.takesUp(t, srv, was.processes)
			}
		}
		if s.renewed != nil {
			s.renewed(t, c, befores[s])
		}
	})

	succession.step(t, func(t *testing.T) { rotation.ends(t, 10*time.Minute) })
	if succession.failed {
		t.FailNow()
	}
	if succession.left == "" {
		c.succeed(t, all, befores)
	}
	succession.step(t, func(t *testing.T) { c.checkSuccession(t, succession) })
	logs.step(t, func(t *testing.T) { c.checkLogs(t, false) })
	c.measure(t, all)

	reboot.step(t, func(t *testing.T) { c.reboot(t, reboot) })
	if reboot.left == "" {
		together(t, "rebooted", all, func(t *testing.T, s *scene) {
			for _, srv := range s.withSecret() {
				if srv.reloads {
					c.takesUp(t, srv, befores[s][srv.name()].processes)
				}
			}
			if s.rebooted != nil && succession.left == "" {
				s.rebooted(t, c)
			}
		})
	}
	c.oneByOne(t, all)
	unwoken.step(t, func(t *testing.T) { c.compareWaking(t, unwoken) })
	for _, s := range all { // clients fail afterwards
		if s.last != nil {
			s.step(t, func(t *testing.T) { s.last(t, c) })
		}
	}
	kubelet.step(t, func(t *testing.T) { kubelet.note(c.kubeletRenews(t, served)) })
	distrust.step(t, func(t *testing.T) { c.distrust(t, distrust) })
	logs.step(t, func(t *testing.T) {
		logs.note(c.checkLogs(t, true))
		logs.note(c.checkEtcd(t))
	})
}

// leaveOut leaves out the scenes that are not in the list (package pick), except the first, which the
// others need. Some run only if they are named. It returns an error for an unknown name.
func leaveOut(scenes []*scene, list string) error {
	asked, err := pick.Parse(list)
	if err != nil {
		return err
	}
	var known []string
	for _, s := range scenes[1:] {
		known = append(known, s.name)
	}
	for _, name := range asked.Names {
		if !slices.Contains(known, name) {
			return fmt.Errorf("scene %q: must be one of %s", name, strings.Join(known, ", "))
		}
	}
	for _, s := range scenes[1:] {
		switch {
		case asked.AllBut && s.onlyNamed:
			s.left = "only with SCENES=" + s.name
		case !asked.Has(s.name):
			s.left = "not selected"
		}
	}
	return nil
}

// startClients starts the client pods, which trust the first root.
func (c *cluster) startClients(t *testing.T) {
	c.apply(t, "clients.yaml")
	eventually(t, settling, "kube-apiserver reaches the webhook by its Service", func(ctx context.Context) error {
		return c.injects(ctx, clientsNamespace)
	})
	eventually(t, starting, "the clients", func(ctx context.Context) error { return c.rolledOut(ctx, clientsNamespace, "") })
	generation, err := c.generation(t.Context())
	require.NoError(t, err)
	require.Equal(t, "1", generation, "key generation of ConfigMap %s: the scenes need a new CA", api.CAStatusName)
}

// followAll makes the clients follow the servers of all running scenes.
func (c *cluster) followAll(ctx context.Context, scenes []*scene) error {
	var all []handshake.Target
	for _, s := range scenes {
		if s.left != "" || s.failed {
			continue
		}
		for _, srv := range s.servers {
			targets, err := c.targets(ctx, srv)
			if err != nil {
				return err
			}
			all = append(all, targets...)
		}
		all = append(all, s.routes...)
	}
	return c.follow(ctx, all)
}

// succeed runs the step of each scene for the new generation of the CA.
func (c *cluster) succeed(t *testing.T, scenes []*scene, befores map[*scene]before) {
	together(t, "succeeded", scenes, func(t *testing.T, s *scene) {
		for _, srv := range s.withSecret() {
			if !srv.reloads {
				continue
			}
			eventually(t, propagating, srv.name(), func(ctx context.Context) error { return c.isSignedBy(ctx, srv, "2") })
			c.takesUp(t, srv, befores[s][srv.name()].processes)
		}
		if s.succeeded != nil {
			s.succeeded(t, c)
		}
	})
}
