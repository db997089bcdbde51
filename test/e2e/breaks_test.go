//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

const breaksNamespace = "e2e-breaks"

// breaksServer is one of the servers of scene breaks.
func breaksServer(name string, reloads bool) server {
	return server{namespace: breaksNamespace, service: name, secret: name + "-tls", port: 8443, reloads: reloads}
}

// breaksScene: the certificates of four servers are renewed with those of all scenes. At the end, the
// CA is distrusted (foretells).
func breaksScene() *scene {
	reloads, once, subPath, rolled := breaksServer("reloads", true), breaksServer("once", false), breaksServer("subpath", false), breaksServer("rolled", false)
	s := &scene{
		name: "breaks", about: "which servers break, compared with the output of rotate-ca", manifest: "breaks.yaml",
		servers: []server{reloads, once, subPath, rolled},
		up: func(t *testing.T, c *cluster) {
			c.starts(t, reloads, "/", "hello from reloads-")
			for _, s := range []server{once, subPath, rolled} {
				c.serves(t, s, "/", "hello from "+s.service+"-")
			}
		},
		renewed: func(t *testing.T, c *cluster, before before) {
			c.isFound(t, once, before)
			c.isFound(t, subPath, before)
			c.isRestarted(t, rolled, before)
		},
	}
	s.last = func(t *testing.T, c *cluster) { c.foretells(t, s) }
	return s
}

// prediction is the part of the output of rotate-ca -o json that the scene checks.
type prediction struct {
	Request string
	Breaks  struct {
		Workloads []struct{ Namespace, Kind, Name, Uptake string }
	}
	Served struct {
		Services, Serving int
		NotServed         []struct{ Service, Why string }
		Waiting           []string
	}
}

// breakingUptakes are the uptakes of workloads that break, or may break, until they are restarted.
var breakingUptakes = []string{"stale", "held", "unseen"}

// foretells distrusts the CA, and fails the test unless exactly the servers of the scene break that
// the command listed before and, in its line "served", after. Clients that do not reload their
// bundle fail from then on.
func (c *cluster) foretells(t *testing.T, s *scene) {
	late := c.startsLate(t)
	all := append(slices.Clone(s.servers), late)
	for _, srv := range all {
		require.NoError(t, c.fetches(t.Context(), srv.url("/"), "hello from "+srv.service+"-", "", srv.name()), "before")
	}
	printed, said := c.distrusts(t)
	t.Log(said)
	require.Equal(t, "written", printed.Request)

	uptakes := map[string]string{}
	for _, w := range printed.Breaks.Workloads {
		if w.Namespace == breaksNamespace {
			uptakes[w.Name] = w.Uptake
		}
	}
	assert.Equal(t, map[string]string{"reloads": "reloads", "once": "stale", "subpath": "stale", "rolled": "restarted", "late": "unseen"}, uptakes)

	broken := map[string]string{} // by server, why a client does not trust it
	for _, srv := range all {
		if !slices.Contains(breakingUptakes, uptakes[srv.service]) {
			c.serves(t, srv, "/", "hello from "+srv.service+"-")
			continue
		}
		err := c.fetches(t.Context(), srv.url("/"), "", "", srv.name())
		if assert.Error(t, err, "%s was listed, and works", srv.name()) {
			assert.Contains(t, err.Error(), "certificate signed by unknown authority")
			broken[breaksNamespace+"/"+srv.service] = "distrusted"
		}
	}
	left := map[string]string{}
	for _, n := range printed.Served.NotServed {
		if strings.HasPrefix(n.Service, breaksNamespace+"/") {
			left[n.Service] = "distrusted"
			assert.Contains(t, said, "not served: "+n.Service+": "+n.Why, "the text agrees with the data")
		}
	}
	assert.Equal(t, broken, left, "Services in lines \"not served\"")
	assert.Empty(t, printed.Served.Waiting, "what the command waits for")
	assert.Contains(t, said, fmt.Sprintf("served: by every pod of %d of %d Services", printed.Served.Serving, printed.Served.Services))
	s.note(fmt.Sprintf("listed before and broken after: %s; the other %d work", strings.Join(slices.Sorted(maps.Keys(broken)), ", "), len(all)-len(broken)))
}

// startsLate starts a server whose pod waits for its first certificate.
func (c *cluster) startsLate(t *testing.T) server {
	t.Helper()
	late := breaksServer("late", false)
	c.apply(t, "breakslate.yaml")
	eventually(t, starting, "the pod waits", func(ctx context.Context) error {
		pods, err := c.podsOf(ctx, late)
		if err == nil && pods[0].Status.Phase != corev1.PodPending {
			err = fmt.Errorf("phase %s", pods[0].Status.Phase)
		}
		return err
	})
	c.annotate(t, late, api.AnnotationSecretName, late.secret)
	c.starts(t, late, "/", "hello from late-")
	return late
}

// distrusts runs the command, which lists what breaks and distrusts the CA. It returns the command's
// JSON and its text.
func (c *cluster) distrusts(t *testing.T) (printed prediction, said string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), c.tools.plugin, "rotate-ca", "--distrust-now", "--yes", "--reason=e2e, what breaks", "--timeout=12m", "-o", "json")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.kubeconfig)
	var out, text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &text
	require.NoError(t, cmd.Run(), "%s", &text)
	require.NoError(t, json.Unmarshal(out.Bytes(), &printed), out.String())
	return printed, text.String()
}
