package world

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/servingcert/servingcert/hack/chaos/invariant"
	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/pkg/api"
)

const (
	creators = 3
	between  = 100 * time.Millisecond
	// A controller whose pod is refused creates it again, at first soon.
	again = 250 * time.Millisecond
	// given is how long a pod may be refused before it counts as lost, times in which the
	// API server is away not counted.
	given = 20 * time.Second
	// one in so many pods is kept for a moment; the others are dry runs.
	kept = 10
)

// stream creates pods of the Services, all the time.
type stream struct {
	clientset kubernetes.Interface
	places    []place
	cancel    context.CancelFunc
	done      sync.WaitGroup
	names     atomic.Int64

	mu    sync.Mutex
	count invariant.Admissions
	why   string // the last refusal
}

// place is a Service and its namespace.
type place struct{ namespace, name string }

func newStream(clientset kubernetes.Interface, places []place) *stream {
	ctx, cancel := context.WithCancel(context.Background())
	s := &stream{clientset: clientset, places: places, cancel: cancel}
	for range creators {
		s.done.Go(func() {
			for process.Sleep(ctx, between) {
				s.create(ctx, s.places[rand.N(len(s.places))])
			}
		})
	}
	return s
}

func (s *stream) close() {
	s.cancel()
	s.done.Wait()
}

// take returns what was counted since it was last called, and the last refusal.
func (s *stream) take() (invariant.Admissions, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	count, why := s.count, s.why
	s.count, s.why = invariant.Admissions{}, ""
	return count, why
}

// create creates a pod, again and again until it is there.
func (s *stream) create(ctx context.Context, at place) {
	n := s.names.Add(1)
	pod := podOf(fmt.Sprint("pod-", n), at.name)
	var options metav1.CreateOptions
	if n%kept != 0 {
		options.DryRun = []string{metav1.DryRunAll}
	}
	pods := s.clientset.CoreV1().Pods(at.namespace)
	for refused := time.Duration(0); ; {
		try, cancel := context.WithTimeout(ctx, attempt)
		stored, err := pods.Create(try, pod, options)
		cancel()
		if ctx.Err() != nil {
			return
		}
		outcome := invariant.Classify(err, err == nil && stored.Labels[api.LabelInjected] == "true")
		lost := outcome == invariant.Refused && refused >= given
		s.note(outcome, lost, err)
		if err == nil && len(options.DryRun) == 0 {
			var now int64
			_ = pods.Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now}) // it is of no use to anybody
		}
		if err == nil || lost || !process.Sleep(ctx, again) {
			return
		}
		if outcome == invariant.Refused {
			refused += again
		}
	}
}

func (s *stream) note(o invariant.Outcome, lost bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count.Add(o)
	if lost {
		s.count.Lost++
	}
	if o == invariant.Refused {
		s.why = err.Error()
	}
}

func podOf(name, app string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": app}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "main", Image: "example.com/server", Ports: []corev1.ContainerPort{{ContainerPort: port}},
		}}},
	}
}
