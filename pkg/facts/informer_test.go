package facts_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fcache "k8s.io/client-go/tools/cache/testing"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/pkg/facts"
	"github.com/servingcert/servingcert/pkg/heartbeat"
)

// secret builds a Secret with an owner and a key.
func secret(name, owner string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Annotations: map[string]string{"owner": owner}},
		Data:       map[string][]byte{"tls.key": []byte("private")},
	}
}

// started returns an informer of the Secrets in a source, with the names of their
// owners as facts: what it keeps is metadata alone.
func started(t *testing.T, source *fcache.FakeControllerSource) *facts.Informer[*metav1.PartialObjectMetadata] {
	t.Helper()
	informer, err := facts.NewInformerOf(source, facts.Options[*corev1.Secret, *metav1.PartialObjectMetadata]{
		Example: &corev1.Secret{},
		Derive: func(s *corev1.Secret) *metav1.PartialObjectMetadata {
			return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
				Namespace: s.Namespace, Name: s.Name, ResourceVersion: s.ResourceVersion, GenerateName: s.Annotations["owner"],
			}}
		},
		Indexers: map[string]func(*metav1.PartialObjectMetadata) []string{
			"owner": func(m *metav1.PartialObjectMetadata) []string { return []string{m.GenerateName} },
		},
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = informer.Start(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	require.Eventually(t, informer.HasSynced, process.Soon, time.Millisecond)
	return informer
}

func TestInformerHoldsFacts(t *testing.T) {
	source := fcache.NewFakeControllerSource()
	source.Add(secret("web-tls", "web"))
	source.Add(secret("api-tls", "api"))
	informer := started(t, source)
	assert.Len(t, informer.List(), 2)
	assert.Equal(t, "web", informer.Get(types.NamespacedName{Namespace: "shop", Name: "web-tls"}).GenerateName)
	assert.Nil(t, informer.Get(types.NamespacedName{Namespace: "shop", Name: "none"}))
	found := informer.ByIndex("owner", "api")
	require.Len(t, found, 1)
	assert.Equal(t, "api-tls", found[0].Name)
	assert.Empty(t, informer.ByIndex("owner", "none"))
	assert.Panics(t, func() { informer.ByIndex("unknown", "x") })
	assert.False(t, informer.NeedLeaderElection())
}

func TestInformerSource(t *testing.T) {
	source := fcache.NewFakeControllerSource()
	source.Add(secret("web-tls", "web"))
	informer := started(t, source)
	changes := make(chan string, 10)
	owner := func(m *metav1.PartialObjectMetadata) string {
		if m == nil {
			return "-"
		}
		return m.GenerateName
	}
	s := informer.Source("Secrets", func(_ context.Context, q facts.Queue, before, after *metav1.PartialObjectMetadata) {
		changes <- owner(before) + " " + owner(after)
		q.Add(reconcile.Request{})
	})
	assert.Equal(t, "Secrets", fmt.Sprint(s))
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	require.NoError(t, s.Start(context.Background(), queue))
	require.NoError(t, s.WaitForSync(context.Background()))
	next := func() string {
		select {
		case change := <-changes:
			return change
		case <-time.After(process.Soon):
			return "nothing came"
		}
	}
	assert.Equal(t, "- web", next())
	source.Modify(secret("web-tls", "api"))
	assert.Equal(t, "web api", next())
	source.Delete(secret("web-tls", "api"))
	assert.Equal(t, "api -", next())
	assert.Equal(t, 1, queue.Len())
}

// A watch that does not get past an object is seen to be busy with it: while it derives the facts, and while it calls the
// handlers.
func TestAStuckWatchIsSeen(t *testing.T) {
	for _, step := range []string{"derive", "handle"} {
		source, release := fcache.NewFakeControllerSource(), make(chan struct{})
		source.Add(secret(step, "web"))
		reached := func(s string) {
			if s == step {
				<-release
			}
		}
		informer, err := facts.NewInformerOf(source, facts.Options[*corev1.Secret, *corev1.Secret]{
			Example: &corev1.Secret{},
			Derive:  func(s *corev1.Secret) *corev1.Secret { reached("derive"); return s },
		})
		require.NoError(t, err)
		informer.Handle(func(_, _ *corev1.Secret) { reached("handle") })
		done := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		go func() { defer close(done); _ = informer.Start(ctx) }()
		busy := func() bool {
			return slices.ContainsFunc(heartbeat.Process.Now(), func(w heartbeat.Work) bool {
				return w.Worker == "watch of *v1.Secret" && w.Object == types.NamespacedName{Namespace: "shop", Name: step}
			})
		}
		assert.Eventually(t, busy, process.Soon, time.Millisecond, step)
		close(release)
		assert.Eventually(t, func() bool { return !busy() }, process.Soon, time.Millisecond, step)
		cancel()
		<-done
	}
}

// Where only changes count, what is there at the start is none, in either kind of source.
func TestInformerChanges(t *testing.T) {
	source := fcache.NewFakeControllerSource()
	source.Add(secret("web-tls", "web"))
	informer := started(t, source)
	changes := make(chan string, 10)
	derived := map[string]bool{}
	informer.Handle(func(_, after *metav1.PartialObjectMetadata) { derived[after.Name] = true })
	assert.True(t, derived["web-tls"], "what is derived from all objects has those that are there")
	s := informer.Changes("Secrets", func(_ context.Context, _ facts.Queue, _, after *metav1.PartialObjectMetadata) {
		assert.True(t, derived[after.Name], "and has seen a change before those who ask later")
		changes <- after.Name
	})
	require.NoError(t, s.Start(t.Context(), nil))
	require.NoError(t, s.WaitForSync(t.Context()))
	source.Add(secret("api-tls", "api"))
	assert.Equal(t, "api-tls", <-changes)
	source.Modify(secret("web-tls", "api"))
	assert.Equal(t, "web-tls", <-changes)

	p := facts.Changed()
	assert.False(t, p.Create(event.CreateEvent{IsInInitialList: true}))
	assert.True(t, p.Create(event.CreateEvent{}))
	assert.True(t, p.Update(event.UpdateEvent{}))
	assert.True(t, p.Delete(event.DeleteEvent{}))
}

// A handler may rely on the facts of the caches that are named to come before.
func TestASourceStartsAfterOthers(t *testing.T) {
	informer, source := started(t, fcache.NewFakeControllerSource()), fcache.NewFakeControllerSource()
	source.Add(secret("web-tls", "web"))
	other := &lateCache{asked: make(chan struct{}, 1)}
	called := make(chan bool, 1)
	web := started(t, source).Source("Secrets", func(context.Context, facts.Queue, *metav1.PartialObjectMetadata, *metav1.PartialObjectMetadata) {
		called <- other.synced.Load()
	}, informer, other)
	ended := make(chan error)
	go func() { ended <- web.Start(t.Context(), nil) }()
	<-other.asked
	other.synced.Store(true)
	require.NoError(t, <-ended)
	assert.True(t, <-called)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	other.synced.Store(false)
	assert.ErrorContains(t, web.Start(ctx, nil), "the cache of Secrets did not sync")
}

type lateCache struct {
	synced atomic.Bool
	asked  chan struct{}
}

func (l *lateCache) HasSynced() bool {
	select {
	case l.asked <- struct{}{}:
	default:
	}
	return l.synced.Load()
}

// What is there when a controller starts waits behind what changes later.
func TestWhatIsThereAtTheStartHasALowPriority(t *testing.T) {
	source := fcache.NewFakeControllerSource()
	source.Add(secret("old-tls", "old"))
	informer := started(t, source)
	queue := priorityqueue.New[reconcile.Request]("")
	defer queue.ShutDown()
	s := informer.Source("Secrets", func(_ context.Context, q facts.Queue, before, after *metav1.PartialObjectMetadata) {
		for _, m := range []*metav1.PartialObjectMetadata{before, after} {
			if m != nil {
				q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: m.Name}})
			}
		}
	})
	require.NoError(t, s.Start(t.Context(), queue))
	require.NoError(t, s.WaitForSync(t.Context()))
	next := func(wantName string, wantPriority int) {
		t.Helper()
		request, priority, _ := queue.GetWithPriority()
		assert.Equal(t, wantName, request.Name)
		assert.Equal(t, wantPriority, priority)
		queue.Done(request)
	}
	next("old-tls", handler.LowPriority)
	source.Add(secret("new-tls", "new"))
	next("new-tls", 0)
	source.Modify(secret("old-tls", "another"))
	next("old-tls", 0)
	source.Delete(secret("old-tls", "another"))
	next("old-tls", 0)
}
