package queue

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/servingcert/servingcert/hack/process"
)

func requestOf(namespace, name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
}

// newTestQueue returns a queue whose first retry is after a second.
func newTestQueue() *fairQueue {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Second, time.Minute)
	return New("", limiter).(*fairQueue)
}

func TestABusyNamespaceDelaysNobody(t *testing.T) {
	const workers = 8
	synctest.Test(t, func(t *testing.T) {
		q := newTestQueue()
		defer q.ShutDown()
		for i := range 5000 {
			q.Add(requestOf("busy", fmt.Sprint(i)))
		}
		var held []reconcile.Request
		for range workers {
			r, _ := q.Get()
			assert.Equal(t, "busy", r.Namespace, "no other namespace has work")
			held = append(held, r)
		}
		for i := range 3 {
			q.Add(requestOf("shop", fmt.Sprint(i)))
		}
		for _, r := range held {
			q.Add(r) // its Service has changed again
			q.Done(r)
			if next, _ := q.Get(); r == held[0] {
				assert.Equal(t, requestOf("shop", "0"), next, "the first free worker")
			}
		}
		assert.Equal(t, 3+5000-8, q.Len())
	})
}

// A tenant with long requests leaves one worker to the others, which need not wait for its requests.
func TestATenantLeavesAWorkerToOthers(t *testing.T) {
	const workers = 3
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Second, time.Minute)
	for name, tenant := range map[string]func(i int) (mine, other reconcile.Request){
		"namespaces": func(i int) (mine, other reconcile.Request) {
			return requestOf("evil", fmt.Sprint(i)), requestOf("shop", fmt.Sprint(i))
		},
		"namespaces by name": func(int) (mine, other reconcile.Request) { return requestOf("", "evil"), requestOf("", "shop") },
		"cluster and a space": func(i int) (mine, other reconcile.Request) {
			return requestOf("evil", fmt.Sprint(i)), requestOf("", "crd")
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			q := ForWorkers(workers)("", limiter)
			defer q.ShutDown()
			var held []reconcile.Request
			for i := range 2 * workers {
				r, _ := tenant(i)
				q.Add(r)
			}
			for range min(q.Len(), workers-1) {
				r, _ := q.Get()
				held = append(held, r)
			}
			got := make(chan reconcile.Request)
			go func() { // the last worker
				for r, shutdown := q.Get(); !shutdown; r, shutdown = q.Get() {
					got <- r
				}
				close(got)
			}()
			synctest.Wait()
			assert.Empty(t, got, name)
			assert.Zero(t, q.Len(), name)
			_, other := tenant(0)
			q.Add(other)
			assert.Equal(t, other, <-got, "%s: another tenant does not wait", name)
			if len(held) == workers-1 {
				q.Done(held[0]) // by a worker that then takes the next
				r, _ := q.Get()
				assert.Equal(t, "evil", r.Namespace, name)
				q.Done(r)
			}
			q.ShutDown()
			<-got
		})
	}
}

func TestQueueOfDelaysAndPriorities(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newTestQueue()
		defer q.ShutDown()
		web, own := requestOf("shop", "web"), requestOf("servingcert-system", "webhook")
		low, high := -100, 1

		q.AddWithOpts(priorityqueue.AddOpts{Priority: &low}, web)
		q.AddWithOpts(priorityqueue.AddOpts{After: time.Hour, Priority: &high}, own)
		r, priority, shutdown := q.GetWithPriority()
		assert.Equal(t, web, r)
		assert.Equal(t, low, priority)
		assert.False(t, shutdown)

		q.Add(web)
		q.Add(web)
		assert.Zero(t, q.Len(), "it is in progress")
		q.Done(web)
		assert.Equal(t, 1, q.Len())
		_, priority, _ = q.GetWithPriority()
		assert.Zero(t, priority, "the highest priority since it was taken")

		q.AddWithOpts(priorityqueue.AddOpts{RateLimited: true, Priority: &low}, web)
		assert.Equal(t, 1, q.NumRequeues(web))
		q.Done(web)
		began := time.Now()
		r, priority, _ = q.GetWithPriority()
		assert.Equal(t, web, r)
		assert.Equal(t, low, priority)
		assert.Equal(t, time.Second, time.Since(began).Round(time.Second))
		q.Forget(web)
		assert.Zero(t, q.NumRequeues(web))

		q.AddAfter(web, 2*time.Hour)
		q.Done(web)
		r, priority, _ = q.GetWithPriority()
		assert.Equal(t, own, r, "its delay ends first")
		assert.Equal(t, high, priority)
		q.Done(own)
		r, _ = q.Get()
		assert.Equal(t, web, r)
		assert.Empty(t, q.order.noted, "priorities of taken requests are removed")

		q.ShutDown()
		_, _, shutdown = q.GetWithPriority()
		assert.True(t, shutdown)
	})
}

// After ShutDown, queued requests are not processed.
func TestQueueEndsAtOnce(t *testing.T) {
	q := newTestQueue()
	for i := range 100 {
		q.Add(requestOf("shop", fmt.Sprint(i)))
	}
	q.ShutDown()
	for range 8 {
		_, _, shutdown := q.GetWithPriority()
		assert.True(t, shutdown)
	}
	assert.Equal(t, 92, q.Len())
}

// Workers get every request after it was added, and never the same one at the same time.
func TestQueueUnderLoad(t *testing.T) {
	q := newTestQueue()
	const namespaces, names, adders = 5, 7, 4
	var added, seen [namespaces][names]atomic.Int64 // counts of additions, and the counts that workers saw
	var busy [namespaces][names]atomic.Bool
	var workers, adding sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for {
				r, shutdown := q.Get()
				if shutdown {
					return
				}
				var i, j int
				_, err := fmt.Sscan(r.Namespace+" "+r.Name, &i, &j)
				assert.NoError(t, err)
				assert.True(t, busy[i][j].CompareAndSwap(false, true), "%s is in progress twice", r)
				seen[i][j].Store(added[i][j].Load())
				busy[i][j].Store(false)
				q.Done(r)
			}
		})
	}
	for seed := range adders {
		adding.Go(func() {
			chance := rand.New(rand.NewPCG(1, uint64(seed)))
			for range 2000 {
				i, j := chance.IntN(namespaces), chance.IntN(names)
				added[i][j].Add(1)
				priority := -100 * chance.IntN(2)
				q.AddWithOpts(priorityqueue.AddOpts{Priority: &priority}, requestOf(fmt.Sprint(i), fmt.Sprint(j)))
			}
		})
	}
	adding.Wait()
	require.Eventually(t, func() bool {
		for i := range namespaces {
			for j := range names {
				if seen[i][j].Load() != added[i][j].Load() {
					return false
				}
			}
		}
		return true
	}, process.Soon, time.Millisecond)
	q.ShutDown()
	workers.Wait()
}
