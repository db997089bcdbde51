//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/test/e2e/handshake"
)

// scene tests one thing that users rely on. All scenes run at the same time, with common steps:
// for example, all certificates are renewed at once, so that the kubelet's delay of a minute and a
// half occurs once.
type scene struct {
	name     string // also that of its subtests
	about    string
	manifest string
	// servers are the servers that the clients follow once all scenes are up. After a renewal, the
	// runner checks for those that reload that all pods serve the new certificate, with the same
	// processes.
	servers []server
	// routes are other targets that lead to the servers: addresses, a gateway.
	routes []handshake.Target
	// leftOut returns why the scene cannot run in this cluster, or "".
	leftOut func(c *cluster) string
	// onlyNamed: it only runs if -scenes names it, as it takes long.
	onlyNamed bool

	up        func(t *testing.T, c *cluster)                // applies the manifest, and checks that it serves
	renewed   func(t *testing.T, c *cluster, before before) // after the renewal of all certificates
	succeeded func(t *testing.T, c *cluster)                // after the succession of the CA
	rebooted  func(t *testing.T, c *cluster)                // after the restart of the control plane
	alone     func(t *testing.T, c *cluster)                // steps that would disturb other scenes
	last      func(t *testing.T, c *cluster)                // steps after which clients of others fail

	outcome
}

// withSecret returns the servers whose key is in a Secret.
func (s *scene) withSecret() []server {
	return slices.DeleteFunc(slices.Clone(s.servers), func(srv server) bool { return srv.podKeys })
}

// outcome is the result of a scene.
type outcome struct {
	mu     sync.Mutex
	took   time.Duration
	failed bool
	notes  []string
	left   string // why it was left out
}

// note adds a note to the table at the end.
func (o *outcome) note(text string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.notes = append(o.notes, text)
}

// step runs one step of the scene as a subtest, unless one before has failed.
func (s *scene) step(t *testing.T, step func(t *testing.T)) {
	if s.left != "" || s.failed || step == nil {
		return
	}
	t.Run(s.name, func(t *testing.T) {
		start := time.Now()
		t.Cleanup(func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.took += time.Since(start)
			s.failed = s.failed || t.Failed()
			fmt.Printf("    %s: %s after %s\n", t.Name(), map[bool]string{false: "seen", true: "FAILED"}[t.Failed()], seconds(time.Since(start)))
		})
		step(t)
	})
}

// together runs a step of all scenes concurrently.
func together(t *testing.T, name string, scenes []*scene, step func(t *testing.T, s *scene)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		var all sync.WaitGroup
		for _, s := range scenes {
			all.Go(func() { s.step(t, func(t *testing.T) { step(t, s) }) })
		}
		all.Wait()
	})
}

// oneByOne runs a step of the scenes sequentially.
func (c *cluster) oneByOne(t *testing.T, scenes []*scene) {
	t.Run("alone", func(t *testing.T) {
		for _, s := range scenes {
			if s.alone != nil {
				s.step(t, func(t *testing.T) { s.alone(t, c) })
			}
		}
	})
}

// before is the state of a scene's servers before the renewal, by name.
type before map[string]struct {
	leaf      string
	processes processes
}

func (c *cluster) before(t *testing.T, s *scene) before {
	t.Helper()
	all := before{}
	for _, srv := range s.withSecret() {
		entry := all[srv.name()]
		var err error
		if entry.leaf, err = c.currentLeaf(t.Context(), srv.namespace, srv.service); err != nil {
			t.Fatal(err)
		}
		if entry.processes, err = c.processesOf(t.Context(), srv); err != nil {
			t.Fatal(err)
		}
		all[srv.name()] = entry
	}
	return all
}

func TestLeaveOut(t *testing.T) {
	const asked = "not selected"
	for _, tt := range []struct {
		names string
		left  []string // of install, reload, nginx and slow, which is onlyNamed
		err   string
	}{
		{"", []string{"", "", "", "only with SCENES=slow"}, ""},
		{"nginx", []string{"", asked, "", asked}, ""},
		{"slow", []string{"", asked, asked, ""}, ""},
		{"slow,reload", []string{"", "", asked, ""}, ""},
		{"-nginx", []string{"", "", asked, "only with SCENES=slow"}, ""},
		{"-nginx,reload", []string{"", "", "", ""}, "scenes: -nginx,reload: must have a hyphen before each name, or before none"},
		{"reload,nginks", []string{"", "", "", ""}, `scene "nginks": must be one of reload, nginx, slow`},
	} {
		scenes := []*scene{{name: "install"}, {name: "reload"}, {name: "nginx"}, {name: "slow", onlyNamed: true}}
		err := leaveOut(scenes, tt.names)
		if tt.err != "" {
			require.EqualError(t, err, tt.err)
		} else {
			require.NoError(t, err)
		}
		var left []string
		for _, s := range scenes {
			left = append(left, s.left)
		}
		assert.Equal(t, tt.left, left, "names %q", tt.names)
	}
}
