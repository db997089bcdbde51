package process

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	hackprocess "github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/pkg/facts"
	"github.com/servingcert/servingcert/pkg/heartbeat"
)

// /readyz, and later /healthz, name a controller whose worker is stuck on an object. Other workers
// continue. Once the worker has finished, both succeed. The worker's API requests have a deadline.
func TestAStuckWorkerIsNamed(t *testing.T) {
	bomb := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "evil", Name: "bomb"}}
	other := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "shop", Name: "web-tls"}}
	began, release, done := make(chan struct{}), make(chan struct{}), make(chan reconcile.Request, 2)
	anyName, leads := true, false
	mgr, err := ctrl.NewManager(&rest.Config{Host: "https://127.0.0.1:1"}, NewCommon(true).ManagerOptions(nil, "lease"))
	require.NoError(t, err)
	c, err := controller.New("stuck-signer", mgr, controller.Options{
		SkipNameValidation: &anyName, NeedLeaderElection: &leads, MaxConcurrentReconciles: 2,
		Reconciler: facts.Reconciler("stuck-signer", reconcile.Func(func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
			deadline, _ := ctx.Deadline()
			assert.WithinRange(t, deadline, time.Now(), time.Now().Add(reconcileTimeout))
			if r == bomb {
				close(began)
				<-release
			}
			done <- r
			return reconcile.Result{}, nil
		})),
	})
	require.NoError(t, err)
	require.NoError(t, c.Watch(source.Func(func(_ context.Context, q facts.Queue) error {
		q.Add(bomb)
		q.Add(other)
		return nil
	})))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	finish := sync.OnceFunc(func() { close(release) })
	t.Cleanup(func() { finish(); stop(); assert.NoError(t, <-ended) })
	<-began
	assert.Equal(t, other, <-done)
	// Its worker has sent it while it was still busy with it.
	require.Eventually(t, func() bool { return len(heartbeat.Process.Now()) == 1 }, hackprocess.Soon, time.Millisecond)

	var logged []string
	w := newWorkers(funcr.New(func(_, args string) { logged = append(logged, args) }, funcr.Options{}))
	now := time.Unix(1e9, 0)
	w.clock = func() time.Time { return now }
	checks := w.checks("ca", healthz.Ping)
	ask := func(page string) (int, string) {
		answer := httptest.NewRecorder()
		checks.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, page, http.NoBody))
		return answer.Code, answer.Body.String()
	}
	status, _ := ask("/readyz")
	assert.Equal(t, http.StatusOK, status)
	now = now.Add(patience)
	for range 2 {
		status, body := ask("/readyz")
		assert.Equal(t, http.StatusInternalServerError, status)
		assert.Equal(t, "[-]workers failed: controller \"stuck-signer\" has been busy with one object for more than 3m0s: the log names it\n", body)
		status, _ = ask("/healthz")
		assert.Equal(t, http.StatusOK, status, "a restart comes later")
	}
	require.Len(t, logged, 1)
	assert.Contains(t, logged[0], "evil/bomb")
	now = now.Add(2 * patience)
	status, _ = ask("/healthz")
	assert.Equal(t, http.StatusInternalServerError, status)

	finish()
	assert.Equal(t, bomb, <-done)
	assert.Eventually(t, func() bool { status, _ := ask("/readyz"); return status == http.StatusOK }, hackprocess.Soon, time.Millisecond)
}
