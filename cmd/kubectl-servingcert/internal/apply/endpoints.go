package apply

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/plan"
)

// portOf returns NUMBER/PROTOCOL, which does not change when a port gets a name.
func portOf(p corev1.ServicePort) string { return fmt.Sprintf("%d/%s", p.Port, p.Protocol) }

// ready returns the ports of the Service that have ready endpoints, as in portOf.
func (a *Applier) ready(ctx context.Context, svc *corev1.Service) (map[string]bool, error) {
	slices, err := a.Client.DiscoveryV1().EndpointSlices(svc.Namespace).List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + svc.Name})
	if err != nil {
		return nil, fmt.Errorf("EndpointSlices of Service %s/%s: %w", svc.Namespace, svc.Name, err)
	}
	endpoints := plan.Endpoints{}
	for i := range slices.Items {
		endpoints.Add(&slices.Items[i])
	}
	out := map[string]bool{}
	for _, p := range svc.Spec.Ports {
		if endpoints.Ready(svc.Namespace, svc.Name, p.Name) > 0 {
			out[portOf(p)] = true
		}
	}
	return out, nil
}

// lost returns the ports that had ready endpoints before, and have none now.
func (a *Applier) lost(ctx context.Context, s *step) ([]string, error) {
	svc, err := a.Client.CoreV1().Services(s.Namespace).Get(ctx, s.Name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("Service %s: %w", s.id(), err)
	}
	ready, err := a.ready(ctx, svc)
	var out []string
	for _, p := range s.before.Spec.Ports {
		if key := portOf(p); s.ready[key] && !ready[key] {
			out = append(out, key)
		}
	}
	return out, err
}

// keepEndpoints checks for a while that each port with ready endpoints keeps some. If a port has
// lost its endpoints, it reverts the addition to that Service.
func (a *Applier) keepEndpoints(ctx context.Context, steps []*step) error {
	start := time.Now()
	var failed []error
	for _, s := range steps {
		var missing []string
		err := a.until(ctx, a.Timing.Endpoints, func(ctx context.Context) (bool, error) {
			var err error
			missing, err = a.lost(ctx, s)
			return len(missing) == 0 && time.Since(start) >= a.Timing.Settle, err
		})
		if errors.Is(err, errTimeout) {
			err = a.revert(ctx, s, fmt.Errorf("Service %s: port %s had ready endpoints, and has none since the Service was patched", s.id(), strings.Join(missing, ", ")))
		}
		if err != nil {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

// served waits until the added ports and the earlier ones have ready endpoints.
func (a *Applier) served(ctx context.Context, s *step) error {
	var missing []string
	err := a.until(ctx, a.Timing.Endpoints, func(ctx context.Context) (bool, error) {
		svc, err := a.Client.CoreV1().Services(s.Namespace).Get(ctx, s.Name, metav1.GetOptions{})
		if err != nil {
			return false, fmt.Errorf("Service %s: %w", s.id(), err)
		}
		ready, err := a.ready(ctx, svc)
		missing = nil
		for _, p := range svc.Spec.Ports {
			if _, ok := api.ParseProxyPort(p.TargetPort.StrVal); (ok || s.ready[portOf(p)]) && !ready[portOf(p)] {
				missing = append(missing, portOf(p))
			}
		}
		return len(missing) == 0, err
	})
	switch {
	case errors.Is(err, errTimeout):
		return fmt.Errorf("Service %s: port %s has no ready endpoint after the rollout; see: %s. To go back: remove the added port and %s, and roll out again",
			s.id(), strings.Join(missing, ", "), api.CommandText([]string{s.Namespace}, "kubectl", "describe", "pods", "-n", s.Namespace), api.AnnotationSecretName)
	case err != nil:
		return err
	}
	a.print("service %s: all its ports have ready endpoints", s.id())
	return nil
}

// recordServing records whether condition Serving is True before the pods are replaced. It then stays True, also if the
// new pods do not serve TLS, until the rotator has dialled them.
func (a *Applier) recordServing(ctx context.Context, s *step) error {
	svc, err := a.Client.CoreV1().Services(s.Namespace).Get(ctx, s.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("Service %s: %w", s.id(), err)
	}
	c := api.Condition(svc, api.ConditionServing)
	s.serving = c != nil && c.Status == metav1.ConditionTrue && state.ServingIsOfNow(svc)
	return nil
}

// seenServing waits until the rotator has seen each Service serve TLS, and records the others: a ready endpoint does
// not prove that TLS is served.
func (a *Applier) seenServing(ctx context.Context, steps []*step) error {
	waiting, reasons := steps, map[*step]string{}
	err := a.until(ctx, a.Timing.Serving, func(ctx context.Context) (bool, error) {
		var still []*step
		for _, s := range waiting {
			svc, err := a.Client.CoreV1().Services(s.Namespace).Get(ctx, s.Name, metav1.GetOptions{})
			if err != nil {
				return false, fmt.Errorf("Service %s: %w", s.id(), err)
			}
			c := api.Condition(svc, api.ConditionServing)
			switch {
			case c == nil:
				reasons[s] = "condition " + api.ConditionServing + " is not set yet"
			case c.Status == metav1.ConditionTrue && state.ServingIsOfNow(svc):
				a.print("service %s: seen to serve TLS", s.id())
				continue
			default:
				reasons[s] = fmt.Sprintf("condition %s is %s, %s", api.ConditionServing, c.Status, api.Escape(c.Reason))
			}
			still = append(still, s)
		}
		waiting = still
		return len(waiting) == 0, nil
	})
	if !errors.Is(err, errTimeout) {
		return err
	}
	for _, s := range waiting {
		a.unseen(s, reasons[s])
	}
	return nil
}
