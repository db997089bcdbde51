package hostsync

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/servingcert/servingcert/pkg/exposition"
	"github.com/servingcert/servingcert/pkg/hostfiles"
	"github.com/servingcert/servingcert/pkg/hostfiles/source"
)

// Config is what a Syncer needs.
type Config struct {
	// Stores are kept below the directory Root.
	Stores []hostfiles.Store
	Root   string
	// Host is the name of the host. It determines the time within a window at which the host acts.
	Host string
	// Pace is that of hostfiles.Situation; 0 stands for hostfiles.DefaultPace.
	Pace time.Duration
	// Once makes Run return when no step is possible now.
	Once  bool
	Clock func() time.Time
	Log   *slog.Logger
}

// Syncer maintains all stores of a host.
type Syncer struct {
	cfg     Config
	keepers []*keeper
}

// New returns a Syncer. It does not read or write anything before Run.
func New(cfg Config) *Syncer {
	s := &Syncer{cfg: cfg}
	for i := range cfg.Stores {
		spec := &cfg.Stores[i]
		k := &keeper{
			spec: spec, root: cfg.Root, pace: cmp.Or(cfg.Pace, hostfiles.DefaultPace), once: cfg.Once, clock: cfg.Clock, kick: make(chan struct{}, 1),
			log:    cfg.Log.With("store", spec.Name),
			status: Status{Store: spec.Name, Reason: hostfiles.InProgress, Message: "starting"},
		}
		if !cfg.Once {
			k.delay = hostfiles.Spread(cfg.Host, spec.Name, spec.Action.Window)
		}
		s.keepers = append(s.keepers, k)
	}
	return s
}

// Run maintains the stores until ctx ends, or with Once until no step is possible now. It returns an error
// if it could not start.
func (s *Syncer) Run(ctx context.Context) error {
	watch, err := source.NewWatch()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { watch.Run(ctx, s.changed) })
	watching.Go(func() { s.watch(ctx, watch) })
	defer watching.Wait()
	defer cancel()
	var keeping sync.WaitGroup
	for _, k := range s.keepers {
		keeping.Go(func() { k.run(ctx) })
	}
	keeping.Wait()
	return nil
}

// watch watches the sources, including directories that are created or replaced later.
func (s *Syncer) watch(ctx context.Context, watch *source.Watch) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		for _, k := range s.keepers {
			watch.Add(k.spec.From)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// changed notifies the keepers of stores with that source.
func (s *Syncer) changed(dir string) {
	for _, k := range s.keepers {
		if k.spec.From == dir {
			select {
			case k.kick <- struct{}{}:
			default:
			}
		}
	}
}

// Bounds of the readiness text, which a kubelet shows in an event.
const (
	maxShown   = 8
	maxMessage = 300
)

// NotReady returns a line of bounded length for each store that needs attention; "" if none does.
func (s *Syncer) NotReady() string {
	var lines []string
	for _, k := range s.keepers {
		if status := k.read(); !status.Reason.Ready() {
			message := strings.ReplaceAll(hostfiles.Shorten(status.Message, maxMessage), "\n", " ")
			lines = append(lines, fmt.Sprintf("store %s: %s: %s\n", status.Store, status.Reason, message))
		}
	}
	if more := len(lines) - maxShown; more > 0 {
		lines = append(lines[:maxShown], fmt.Sprintf("and %d more\n", more))
	}
	return strings.Join(lines, "")
}

// Handler serves /healthz, /readyz and /metrics.
func (s *Syncer) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if text := s.NotReady(); text != "" {
			http.Error(w, strings.TrimSuffix(text, "\n"), http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte("ok\n"))
	})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_, _ = w.Write(s.metrics())
	})
	return mux
}

func (s *Syncer) metrics() []byte {
	t := &exposition.Text{}
	each := func(of func(Status) int64) {
		for _, k := range s.keepers {
			status := k.read()
			t.Value(of(status), "store", status.Store)
		}
	}
	t.Family("servingcert_host_store_ready", "gauge", "1 if the store needs no attention, by store and reason; otherwise 0.", "store", "reason")
	for _, k := range s.keepers {
		status, ready := k.read(), int64(0)
		if status.Reason.Ready() {
			ready = 1
		}
		t.Value(ready, "store", status.Store, "reason", string(status.Reason))
	}
	t.Family("servingcert_host_store_leaf_not_after_timestamp_seconds", "gauge", "Expiry of the installed certificate, for a bundle of the first one that expires; 0 if none is installed.", "store")
	each(func(st Status) int64 {
		if st.NotAfter.IsZero() {
			return 0
		}
		return st.NotAfter.Unix()
	})
	t.Family("servingcert_host_store_switches_total", "counter", "Switches of the store to another content.", "store")
	each(func(st Status) int64 { return st.Switches })
	t.Family("servingcert_host_store_rollbacks_total", "counter", "Rollbacks of the store to its previous certificate, because the program did not serve the new one.", "store")
	each(func(st Status) int64 { return st.Rollbacks })
	t.Family("servingcert_host_store_actions_total", "counter", "Runs of the store's action.", "store")
	each(func(st Status) int64 { return st.Attempts })
	t.Family("servingcert_host_store_action_failures_total", "counter", "Failed runs of the store's action.", "store")
	each(func(st Status) int64 { return st.Failures })
	return t.Bytes()
}
