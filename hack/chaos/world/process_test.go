package world

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/hack/chaos/invariant"
)

// TestAProcessThatEndsIsStartedAgain, and what ended it is known if nobody killed it.
func TestAProcessThatEndsIsStartedAgain(t *testing.T) {
	dir := t.TempDir()
	p := &Process{Name: "sh", path: "/bin/sh", args: []string{"-c", "echo the end; exit 3"}, dir: dir, log: filepath.Join(dir, "log")}
	require.NoError(t, p.start())
	require.Eventually(t, func() bool { return len(p.Ends()) > 1 }, 30*time.Second, poll)
	require.NoError(t, p.stop())
	assert.Equal(t, "exit status 3: its log ends: the end", p.Ends()[0])
}

func TestAProcessIsKilledAndStopped(t *testing.T) {
	dir := t.TempDir()
	metrics := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("# TYPE go_goroutines gauge\ngo_goroutines 42\nleader_election_master_status{name=\"x\"} 1\n"))
	}))
	t.Cleanup(metrics.Close)
	address := strings.TrimPrefix(metrics.URL, "http://")
	p := &Process{Name: "sleep", path: "/bin/sleep", args: []string{"1000"}, dir: dir, log: filepath.Join(dir, "log"), health: address, metrics: address}
	require.NoError(t, p.start())
	first := p.PID()
	require.NoError(t, p.Kill())
	require.Eventually(t, func() bool { return p.PID() != first }, 30*time.Second, poll)
	assert.Empty(t, p.Ends(), "it was killed")

	require.NoError(t, p.Ready(t.Context()))
	assert.True(t, p.Leads(t.Context()))
	usage, err := p.Usage(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 42, usage.Goroutines)
	assert.Positive(t, usage.Resident)
	require.NoError(t, p.stop())
}

func TestSummary(t *testing.T) {
	seen := []invariant.Sighting{{Leaf: "a", Key: "k", Issuer: "one"}, {Leaf: "b", Key: "l", Issuer: "two"}, {Epoch: 1, Leaf: "a", Key: "k", Issuer: "one"}}
	assert.Equal(t, `2 certificates with 2 keys, signed by ["one" "two"]`, Summary(seen))
}
