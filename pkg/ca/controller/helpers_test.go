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
	"github.com/servingcert/servingcert/test/signertest"
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

// second returns the state of a CA with two generations. The second one signs, and the key of the first is erased.
func second(t require.TestingT) ca.State {
	l := signertest.Generations(t, 2)
	s := ca.State{Signing: 2}
	for i := range l.Roots {
		s.Generations = append(s.Generations, ca.Generation{
			Number: i + 1, Domain: "cluster.local", Root: l.Roots[i], Cross: l.Crosses[i], MadeAt: start, SignsSince: start, UsedUntil: start.Add(maxDuration),
		})
	}
	s.Generations[1].Key = l.Keys[1]
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
