package succession

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/config"
	ctrlmetricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/ca"
	cacontroller "github.com/servingcert/servingcert/pkg/ca/controller"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer/cfssl"
	signercontroller "github.com/servingcert/servingcert/pkg/signer/controller"
	trustcontroller "github.com/servingcert/servingcert/pkg/trust/controller"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// timed is signer and rotator in this process, by a clock that can be moved, with
// a CA that lives for days and certificates for hours.
type timed struct {
	clock     harness.Clock
	looks     atomic.Int64 // how often the CA's controller has gathered what it decides by
	namespace string
	limits    api.Limits
}

const (
	lifeOfCA   = 120 * time.Hour
	lifeOfLeaf = 4 * time.Hour
	soak       = 2 * time.Second
)

func startTimed(t *scene) *timed {
	t.Helper()
	w := &timed{namespace: "timed-system", limits: api.DefaultLimits()}
	w.limits.MinDuration, w.limits.DefaultDuration, w.limits.MaxDuration = time.Hour, lifeOfLeaf, lifeOfLeaf
	_, err := t.admin.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}}, metav1.CreateOptions{})
	require.NoError(t, err)
	// The signer runs in this process, as the administrator, who must not write its conditions.
	err = t.admin.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Delete(t.Context(), "servingcert-conditions", metav1.DeleteOptions{})
	require.NoError(t, err)

	log := &harness.Log{}
	issuing := w.manager(t, log)
	var issuer *signercontroller.Controller
	changed := make(chan struct{}, 1)
	authority, err := cacontroller.Setup(issuing, cacontroller.Config{
		Namespace: w.namespace, Clock: w.clock.Now,
		// Once a look; the clock itself is read for each certificate too.
		CheckClock: func() error { w.looks.Add(1); return nil },
		Parameters: ca.Parameters{
			CADuration: lifeOfCA, MaxDuration: lifeOfLeaf, Soak: soak, Reissue: time.Hour,
			Constraints: w.limits.Constraints(), Domain: w.limits.ClusterDomain,
		},
		ManagedExist: func(context.Context) (bool, error) { return false, nil },
		Leaves:       func() map[string]int { return issuer.Leaves() },
		OnChange: func() {
			select {
			case changed <- struct{}{}:
			default:
			}
		},
	})
	require.NoError(t, err)
	sign, err := cfssl.NewLocal()
	require.NoError(t, err)
	issuer, err = signercontroller.Setup(issuing, signercontroller.Config{
		Instance: "timed", Limits: w.limits, Workers: 4, Sign: sign, Clock: w.clock.Now, Registerer: prometheus.NewRegistry(),
		Authority: func() (*pki.Authority, error) { return authority.Authority() }, AuthorityChanged: changed,
	})
	require.NoError(t, err)

	carrying := w.manager(t, log)
	bundles := trustcontroller.DefaultConfig()
	bundles.Namespace, bundles.Now, bundles.Metrics = w.namespace, w.clock.Now, prometheus.NewRegistry()
	bundles.Targets, bundles.StatusDelay = []string{"NamespaceConfigMap"}, 100*time.Millisecond
	require.NoError(t, trustcontroller.Setup(carrying, bundles))

	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 2)
	for _, mgr := range []ctrl.Manager{issuing, carrying} {
		go func() { done <- mgr.Start(ctx) }()
	}
	t.Cleanup(func() {
		cancel()
		require.NoError(t, errors.Join(<-done, <-done))
		if t.Failed() {
			t.Logf("log:\n%s", log)
		}
	})
	return w
}

func (w *timed) manager(t *scene, log *harness.Log) ctrl.Manager {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, errors.Join(clientgoscheme.AddToScheme(scheme), trustcontroller.AddToScheme(scheme)))
	cacheOptions, err := signercontroller.Config{Instance: "timed"}.CacheOptions()
	require.NoError(t, err)
	anyName := true
	mgr, err := ctrl.NewManager(t.plane.AdminConfig(), ctrl.Options{
		Scheme: scheme, Cache: cacheOptions,
		Metrics:    ctrlmetricsserver.Options{BindAddress: "0"},
		Logger:     logr.FromSlogHandler(slog.NewTextHandler(log, nil)),
		Controller: config.Controller{SkipNameValidation: &anyName},
	})
	require.NoError(t, err)
	return mgr
}

// pass moves the clock. Timers go by the real one, so everything is told to look
// again; pass returns when nothing that is served is due, and the CA's controller has looked and
// written: on a busy machine the clock would pass it by hours.
func (w *timed) pass(t *scene, tr *traffic, d time.Duration) {
	t.Helper()
	tr.standing.Lock()
	w.clock.Set(w.clock.Now().Add(d))
	tr.standing.Unlock()
	touch := func() []byte {
		return fmt.Appendf(nil, `{"metadata":{"annotations":{"test/now":%q}}}`, w.clock.Now().Format(time.RFC3339Nano))
	}
	// The first look may have read the clock before it was moved. The second has written when the third has gathered.
	for range 3 {
		before := w.looks.Load()
		_, err := t.admin.CoreV1().ConfigMaps(w.namespace).Patch(t.Context(), api.CAStatusName, types.MergePatchType, touch(), metav1.PatchOptions{})
		require.NoError(t, err)
		require.Eventually(t, func() bool { return w.looks.Load() > before }, waitFor, tick, "the CA's controller")
	}
	for i := range timedServices {
		_, err := t.admin.CoreV1().Services(tr.mounts.namespace).Patch(t.Context(), fmt.Sprintf("web-%d", i), types.MergePatchType, touch(), metav1.PatchOptions{})
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool { return tr.loaded(w.clock.Now()) }, waitFor, tick, "renewals")
}

func (w *timed) status(t *scene) map[string]string {
	t.Helper()
	cm, err := t.admin.CoreV1().ConfigMaps(w.namespace).Get(t.Context(), api.CAStatusName, metav1.GetOptions{})
	require.NoError(t, err)
	return cm.Data
}

const timedServices = 3

// In the last third of its life a CA is replaced by itself, its certificates over
// the window, and its root leaves when it expires and no chain leads there: 122
// hours, in steps of a quarter.
func TestSuccessionByTime(test *testing.T) {
	t := fresh(test)
	w := startTimed(t)
	makeShop(t, "timed-shop", timedServices, nil)
	tr := startTraffic(t, "timed-shop", timedServices, w.clock.Now)
	require.Equal(t, api.PhaseStable, w.status(t)[api.CAPhase])
	made := w.clock.Now()

	var phases []string
	at := map[string]time.Duration{}
	for w.clock.Now().Before(made.Add(122 * time.Hour)) {
		w.pass(t, tr, 15*time.Minute)
		// That phase lasts some seconds by the real clock, and may be over already: the history says that there was one.
		require.Eventually(t, func() bool { return w.status(t)[api.CAPhase] != api.PhaseWait }, waitFor, tick, "%v", w.status(t)[api.CAWaitingFor])
		if phase := w.status(t)[api.CAPhase]; len(phases) == 0 || phases[len(phases)-1] != phase {
			phases = append(phases, phase)
			at[phase] = w.clock.Now().Sub(made)
		}
	}
	require.Equal(t, []string{api.PhaseStable, api.PhaseReissue, api.PhaseRetire, api.PhaseStable}, phases)
	assert.InDelta(t, lifeOfCA.Hours()*2/3, at[api.PhaseReissue].Hours(), 1, "when a third of the CA's life is left")
	end := w.status(t)
	assert.Equal(t, "2", end[api.CAGeneration])
	generations := api.ParseCAStatus(end).Generations
	require.Len(t, generations, 2)
	assert.False(t, generations[1].TrustedAt.Before(generations[1].MadeAt))
	assert.GreaterOrEqual(t, generations[1].SignsSince.Sub(generations[1].TrustedAt), soak, "it was known everywhere for so long before it signed")
	assert.Equal(t, 1, strings.Count(end[api.BundleKey], "BEGIN CERTIFICATE"), "the first root has left the bundle")
	for i := range timedServices {
		assert.True(t, strings.HasPrefix(served(t, "timed-shop", i)[0].Issuer.CommonName, "servingcert CA 2 "))
	}
	tr.requireNoFailure(t)
	tr.stop()
}
