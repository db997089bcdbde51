package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/plan"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
)

// GuardSkipped returns why Run leaves the list of clients of a Service alone; empty if it does not. everywhere is
// [Skipped]'s.
func GuardSkipped(p plan.Plan, s plan.Service, everywhere bool) string {
	if s.ManagedBy != "" {
		return s.ManagedBy + " manages it: change its source (plan -o yaml)"
	}
	for _, c := range p.Clients {
		if slices.Contains(s.Guard.After, c.Namespace+"/"+c.Workload) && Skipped(p, c, everywhere) != "" {
			return fmt.Sprintf("%s/%s is left alone, and has to connect first", c.Namespace, c.Workload)
		}
	}
	return ""
}

// guard sets the lists of clients of the Services, whose clients connect by now.
func (a *Applier) guard(ctx context.Context, services []plan.Service) error {
	for _, s := range services {
		id := s.Namespace + "/" + s.Name
		why, err := a.guardsNot(ctx, s)
		if err != nil {
			return fmt.Errorf("Service %s: %w", id, err)
		}
		if why != "" {
			a.unguarded(id, "annotation "+api.AnnotationClients+" was not set: "+why)
			continue
		}
		if err := a.setClients(ctx, s); err != nil {
			return fmt.Errorf("Service %s: %w", id, err)
		}
		a.print("service %s: annotation %s=%s%s", id, api.AnnotationClients, s.Guard.Clients, a.would())
		if a.DryRun {
			continue
		}
		if err := a.seeGuarded(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// unguarded records a Service whose pods were not seen to have its list of clients.
func (a *Applier) unguarded(id, why string) {
	a.Unguarded = append(a.Unguarded, id)
	a.print("service %s: %s", id, why)
}

// guardsNot returns why the list is not set; empty if it is. Whom it refuses is asked again: others may have called since.
func (a *Applier) guardsNot(ctx context.Context, s plan.Service) (string, error) {
	for _, client := range s.Guard.After {
		if slices.Contains(a.Unconnected, client) {
			return client + " was not seen to connect", nil
		}
	}
	if slices.Contains(a.Unseen, s.Namespace+"/"+s.Name) {
		return "it was not seen to serve TLS", nil
	}
	if !s.Guard.Refuses {
		return "", nil
	}
	called, err := a.Called(ctx, s.Namespace, s.Name)
	return called.Refuses, err
}

// setClients sets the annotation, unless somebody else has changed it.
func (a *Applier) setClients(ctx context.Context, s plan.Service) error {
	services := a.Client.CoreV1().Services(s.Namespace)
	for i := 1; ; i++ {
		svc, err := services.Get(ctx, s.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if !s.Guard.Unchanged(svc) {
			return fmt.Errorf("annotation %s was changed since the plan was made: run the command again", api.AnnotationClients)
		}
		_, err = services.Patch(ctx, s.Name, types.StrategicMergePatchType, s.Guard.Merge(svc), a.options())
		if !apierrors.IsConflict(err) || i == attempts {
			return err
		}
	}
}

// seeGuarded looks whether the rotator has written the list to all pods of the Service, and records it if it has not.
func (a *Applier) seeGuarded(ctx context.Context, s plan.Service) error {
	id, why := s.Namespace+"/"+s.Name, ""
	err := a.until(ctx, a.Timing.Serving, func(ctx context.Context) (bool, error) {
		list, err := a.Client.CoreV1().Services(s.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, fmt.Errorf("Services of namespace %s: %w", s.Namespace, err)
		}
		var services []*corev1.Service
		selector := labels.Nothing()
		for i := range list.Items {
			if services = append(services, &list.Items[i]); list.Items[i].Name == s.Name {
				selector = labels.SelectorFromSet(list.Items[i].Spec.Selector)
			}
		}
		selected, err := a.Client.CoreV1().Pods(s.Namespace).List(ctx, metav1.ListOptions{LabelSelector: selector.String()})
		if err != nil {
			return false, fmt.Errorf("pods of Service %s: %w", id, err)
		}
		why = notGuarded(selected.Items, services)
		return why == "", nil
	})
	switch {
	case errors.Is(err, errTimeout):
		a.unguarded(id, "its pods were not seen to have the list of clients: "+why)
	case err != nil:
		return err
	default:
		a.print("service %s: its pods have the list of clients", id)
	}
	return nil
}

// notGuarded returns a running pod that does not have the lists of the Services of its namespace; empty if all have them.
func notGuarded(selected []corev1.Pod, services []*corev1.Service) string {
	running := 0
	for i := range selected {
		pod := &selected[i]
		if pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodRunning {
			continue
		}
		running++
		t, has := pods.FactsOf(pod).Template.Value(), pod.Annotations[api.AnnotationAdmits]
		switch {
		case t.Guarded == "":
			return "pod " + pod.Name + " has no proxy with a list, and admits all: roll it out"
		case api.AdmitsAfter(services, pod.Labels, t.GuardedPorts(), has).Value != has:
			return "pod " + pod.Name + " still has annotation " + api.AnnotationAdmits + "=" + api.Escape(api.Shorten(has, maxQuoted)) + ": see whether a rotator runs (kubectl servingcert status)"
		}
	}
	if running == 0 {
		return "no pod runs"
	}
	return ""
}
