//go:build long && !race

package metrics

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/test/flood"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// resident returns the memory that is resident, in bytes, and the most that was since the
// last call.
func (p *process) resident(t *testing.T) (now, peak int64) {
	t.Helper()
	dir := filepath.Join("/proc", strconv.Itoa(p.PID()))
	status, err := os.ReadFile(filepath.Join(dir, "status"))
	require.NoError(t, err)
	for line := range strings.Lines(string(status)) {
		var kib int64
		if n, _ := fmt.Sscanf(line, "VmRSS: %d kB", &kib); n == 1 {
			now = kib << 10
		}
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kib); n == 1 {
			peak = kib << 10
		}
	}
	// 5 sets the peak to what is resident now: proc_pid_clear_refs(5).
	require.NoError(t, os.WriteFile(filepath.Join(dir, "clear_refs"), []byte("5"), 0))
	return now, peak
}

// asks are what those who have a right to a port do with it, each over a connection of its
// own.
func (p *process) asks(roots *x509.CertPool, token string) map[string]func(context.Context) error {
	asks := map[string]func(context.Context) error{
		"health": func(ctx context.Context) error { return p.isOK(ctx, "/healthz") },
		"metrics": func(ctx context.Context) error {
			got, err := p.scrape(ctx, roots, token)
			if err != nil {
				return err
			}
			return got.is200()
		},
	}
	if p.reviews != "" {
		asks["webhook"] = func(ctx context.Context) error { return p.review(ctx, roots) }
	}
	return asks
}

// floods are what is done to each port: the first from one address, which is also that of who
// asks, the second from as many as there are connections.
var floods = []struct{ what, sends string }{
	{"headers", flood.Header(1 << 20)}, {"idle", flood.Request},
}

// TestFloodsOfEveryPort: whoever reaches a port of a process, from one address or from many,
// cannot end it, and keeps neither the kubelet nor Prometheus nor the API server out.
func TestFloodsOfEveryPort(t *testing.T) {
	token := account(t, "scraper")
	bindReader(t, "scraper")
	all := make([]*process, len(names))
	for i, name := range names {
		// A machine that stands still costs the Lease, and with it the process, which is no
		// flood's doing. Floods of processes that lead are among the attacks of make hostile.
		all[i] = start(t, name, "--leader-elect=false")
	}
	roots := bundle(t)
	for _, p := range all {
		harness.Eventually(t, func() error { return p.project(t.Context()) })
		for port, ask := range p.asks(roots, token) {
			harness.Eventually(t, func() error { return ask(t.Context()) })
			for i, f := range floods {
				const connections = 800 // more than are taken
				address := map[string]string{"health": p.Health(), "metrics": p.metrics, "webhook": p.reviews}[port]
				f := &flood.Flood{Target: address, TLS: port != "health", Connections: connections, Peers: i % 2 * connections, Sends: f.sends, Pause: 3 * time.Second}
				t.Run(p.name+" "+port+" "+floods[i].what, func(t *testing.T) { p.withstands(t, f, ask) })
			}
		}
		assert.Zero(t, p.Restarts())
	}
}

// withstands has the process answer while it is flooded.
func (p *process) withstands(t *testing.T, f *flood.Flood, ask func(context.Context) error) {
	before, _ := p.resident(t)
	ctx, stop := context.WithCancel(t.Context())
	var flooding sync.WaitGroup
	flooding.Go(func() { f.Run(ctx) })
	defer flooding.Wait()
	defer stop()
	for made := f.Opened(); made < f.Connections; made = f.Opened() { // a busy machine makes a few in a second
		harness.Eventually(t, func() error {
			if f.Opened() == made {
				return fmt.Errorf("%d of %d connections were made, and no more", made, f.Connections)
			}
			return nil
		})
	}
	var took []time.Duration
	for range 10 {
		began := time.Now()
		harness.Eventually(t, func() error { return ask(t.Context()) })
		took = append(took, time.Since(began))
	}
	harness.Eventually(t, func() error { // the clients take a moment to notice
		if held := f.Held(); held > 512 { // --max-connections
			return fmt.Errorf("%d connections are open", held)
		}
		return nil
	})
	_, peak := p.resident(t)
	t.Logf("%d connections made, resident %d MiB before and %d MiB at most, answers after %s at most", f.Opened(), before>>20, peak>>20, slices.Max(took))
	assert.Less(t, peak, p.deployment.Spec.Template.Spec.Containers[0].Resources.Limits.Memory().Value())
}

// review has the webhook answer a review of a pod that it leaves alone.
func (p *process) review(ctx context.Context, roots *x509.CertPool) error {
	const body = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","operation":"CREATE",` +
		`"kind":{"version":"v1","kind":"Pod"},"resource":{"version":"v1","resource":"pods"},"namespace":"kube-public",` +
		`"object":{"spec":{"containers":[{"name":"c"}]}}}}`
	transport := p.transport(roots)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+p.reviews+"/mutate-v1-pod", strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	response, err := transport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	return nil
}
