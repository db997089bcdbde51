package cluster

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/status"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/plan"
)

const (
	// CalledWindow is the period in which nobody may have called that a list refuses, before watch is taken out of it.
	CalledWindow = 7 * 24 * time.Hour
	// askAll is how long a plan may ask pods who called, altogether: pods may be slow on purpose.
	askAll = 30 * time.Second
)

// watching collects what is needed to ask the pods of Services that watch who calls.
type watching struct {
	situations []status.ClientsSituation
	pods       [][]corev1.Pod // by situation
	places     []status.Place
}

// watchingOf returns those of the Services that watch. names are as in plan.Plan.Only.
func watchingOf(services []*corev1.Service, names []string) (w watching) {
	for _, svc := range services {
		named := len(names) == 0 || slices.Contains(names, svc.Name) || slices.Contains(names, svc.Namespace+"/"+svc.Name)
		entries, _, _ := api.Clients(svc)
		if !named || !slices.Contains(entries, api.ClientsWatch) {
			continue
		}
		if k, err := recorded(svc); err == nil {
			k.Window = CalledWindow
			w.situations = append(w.situations, k)
		}
	}
	w.pods = make([][]corev1.Pod, len(w.situations))
	return w
}

// add adds a pod, of any namespace.
func (w *watching) add(pod *corev1.Pod) {
	if len(w.situations) == 0 {
		return
	}
	w.places = append(w.places, placesOfPod(pod)...)
	for i, k := range w.situations {
		if pod.Namespace == k.Namespace && api.Selects(k.Object, pod) {
			w.pods[i] = append(w.pods[i], *pod)
		}
	}
}

// ask asks the pods who called, within a time for all, and tells the builder. services are those of all situations.
func (w *watching) ask(ctx context.Context, c *Cluster, cfg *rest.Config, services []*corev1.Service, within time.Duration, tell func(namespace, name string, called plan.Called)) {
	end := time.Now().Add(within)
	for i := range w.situations {
		k := &w.situations[i]
		k.Places = w.places
		var beside []*corev1.Service
		for _, svc := range services {
			if svc.Namespace == k.Namespace {
				beside = append(beside, svc)
			}
		}
		share := time.Until(end) / time.Duration(len(w.situations)-i) // of each Service: pods of one cannot use up all
		ctx, cancel := context.WithTimeoutCause(ctx, share, fmt.Errorf("the pods of the Service together did not answer within %s", share.Round(time.Millisecond)))
		c.callers(ctx, forwarder{cfg, c.Client}, k, w.pods[i], beside, within/3)
		cancel()
		tell(k.Namespace, k.Service, calledOf(*k, c.Clock.Now()))
	}
}

// calledOf returns whom the list would refuse, as far as the pods have answered.
func calledOf(k status.ClientsSituation, now time.Time) plan.Called {
	found := status.ClientsOf(k, now)
	return plan.Called{Refuses: found.Refuses(), NotListed: found.NotListed()}
}

// Called asks the pods of a Service who called.
func (c *Cluster) Called(ctx context.Context, cfg *rest.Config, namespace, name string) (plan.Called, error) {
	in := *c
	in.Namespace = namespace
	k, err := in.Clients(ctx, cfg, name, askAll/3)
	if err != nil {
		return plan.Called{}, err
	}
	k.Window = CalledWindow
	return calledOf(k, c.Clock.Now()), nil
}
