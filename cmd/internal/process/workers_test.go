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
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	hackprocess "github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/pkg/facts"
	"github.com/servingcert/servingcert/pkg/heartbeat"
)

// /readyz, and later /healthz, name a controller whose worker is stuck on an object. Other workers
// continue. Once the worker has finished, both succeed.
func TestAStuckWorkerIsNamed(t *testing.T) {
	bomb := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "evil", Name: "bomb"}}
	other := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "shop", Name: "web-tls"}}
	began, release, done := make(chan struct{}), make(chan struct{}), make(chan reconcile.Request, 2)
	anyName, leads := true, false
	ctrl, err := controller.NewUnmanaged("stuck-signer", controller.Options{
		SkipNameValidation: &anyName, NeedLeaderElection: &leads, MaxConcurrentReconciles: 2,
		Reconciler: facts.Reconciler("stuck-signer", reconcile.Func(func(_ context.Context, r reconcile.Request) (reconcile.Result, error) {
			if r == bomb {
				close(began)
				<-release
			}
			done <- r
			return reconcile.Result{}, nil
		})),
	})
	require.NoError(t, err)
	require.NoError(t, ctrl.Watch(source.Func(func(_ context.Context, q facts.Queue) error {
		q.Add(bomb)
		q.Add(other)
		return nil
	})))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- ctrl.Start(ctx) }()
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
	fine := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	ask := func(times int) (int, string) {
		answer := httptest.NewRecorder()
		w.before(fine, times).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/readyz", http.NoBody))
		return answer.Code, answer.Body.String()
	}
	status, _ := ask(1)
	assert.Equal(t, http.StatusOK, status)
	now = now.Add(patience)
	for range 2 {
		status, body := ask(1)
		assert.Equal(t, http.StatusInternalServerError, status)
		assert.Equal(t, "[-]workers failed: controller \"stuck-signer\" has been busy with one object for more than 3m0s: the log names it\n", body)
		status, _ = ask(restartAfter)
		assert.Equal(t, http.StatusOK, status, "a restart comes later")
	}
	require.Len(t, logged, 1)
	assert.Contains(t, logged[0], "evil/bomb")
	now = now.Add(2 * patience)
	status, _ = ask(restartAfter)
	assert.Equal(t, http.StatusInternalServerError, status)

	finish()
	assert.Equal(t, bomb, <-done)
	assert.Eventually(t, func() bool { status, _ := ask(1); return status == http.StatusOK }, hackprocess.Soon, time.Millisecond)
}
