package controller

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/ca"
	"github.com/servingcert/servingcert/pkg/pki"
)

// start is when everything in these tests begins.
var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const (
	day         = 24 * time.Hour
	maxDuration = 90 * day
)

var clusterOnly = pki.Constraints{PermittedDNS: []string{"svc", "cluster.local"}}.Normalize()

// situation is what a signer with the default flags finds at start.
func situation(data map[string][]byte) ca.Situation {
	return ca.Situation{
		Parameters: ca.Parameters{Constraints: clusterOnly, Domain: "cluster.local", MaxDuration: maxDuration}.WithDefaults(),
		Secret:     data, Now: start,
	}
}

// first is the state of a CA that was made at start.
func first(t require.TestingT) ca.State {
	s := situation(nil)
	state, _, err := ca.Decide(s).Apply(s)
	require.NoError(t, err)
	return state
}

// generations is a CA with generations from to to, of which signing signs; those
// before it have lost their keys.
func generations(t require.TestingT, from, to, signing int) ca.State {
	s := ca.State{Signing: signing}
	var keys []ca.Generation // with all keys
	for n := 1; n <= to; n++ {
		key, err := pki.GenerateKey(pki.ECDSAP256)
		require.NoError(t, err)
		begin := start.Add(time.Duration(n) * day)
		root, err := pki.NewRoot(key, n, clusterOnly, begin, begin.Add(ca.DefaultCADuration))
		require.NoError(t, err)
		g := ca.Generation{Number: n, Domain: "cluster.local", Root: root, Key: key, MadeAt: begin, SignsSince: begin, UsedUntil: begin.Add(maxDuration)}
		if n > 1 {
			before := keys[n-2]
			g.Cross, err = pki.NewCross(root, before.Root, before.Key, begin)
			require.NoError(t, err)
		}
		keys = append(keys, g)
	}
	for _, g := range keys[from-1:] {
		if g.Number < signing {
			g.Key = nil
		}
		if g.Number > signing {
			g.SignsSince, g.UsedUntil = time.Time{}, time.Time{}
		}
		s.Generations = append(s.Generations, g)
	}
	return s
}

func secretData(t require.TestingT, s ca.State) map[string][]byte {
	data, err := ca.EncodeState(s)
	require.NoError(t, err)
	return data
}

// with returns data with some keys changed.
func with(data map[string][]byte, changes map[string][]byte) map[string][]byte {
	data = maps.Clone(data)
	maps.Copy(data, changes)
	return data
}

func registryOf(t *testing.T, c prometheus.Collector) *prometheus.Registry {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(c))
	return registry
}

// exposed is all that the collector gives, as text.
func exposed(t *testing.T, c prometheus.Collector) string {
	t.Helper()
	families, err := registryOf(t, c).Gather()
	require.NoError(t, err)
	return fmt.Sprint(families)
}
