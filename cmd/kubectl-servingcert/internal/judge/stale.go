package judge

import (
	"fmt"
	"slices"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
)

// StaleList is what is known of the workloads that serve an older certificate.
type StaleList struct {
	api.ServingStatus
	Problem string // why nothing is known; "" if the list was read
}

// AddStale completes the Services with the workloads of the list that serve an older
// leaf of their Secrets than their conditions are about, and with why these may not
// be all.
func AddStale(services []Service, list StaleList) {
	type key struct {
		namespace string
		of        pods.Key
		leaf      string
	}
	stale := map[key][]api.StaleWorkload{}
	for _, w := range list.Stale {
		k := key{w.Namespace, pods.ParseKey(w.Secret), w.Leaf}
		stale[k] = append(stale[k], escaped(w))
	}
	for i := range services {
		s := &services[i]
		if s.Serving == nil {
			continue
		}
		s.Serving.Stale = nil
		if !s.PodKeys {
			s.Serving.Stale = slices.Clone(stale[key{s.Namespace, s.Key(), s.Serving.Leaf}])
		}
		for _, w := range stale[key{s.Namespace, pods.PodKey, ""}] { // of both kinds, while a Service is switched
			if slices.Contains(w.Services, s.Name) {
				s.Serving.Stale = append(s.Serving.Stale, w)
			}
		}
		s.Serving.StaleUnknown = list.doubt(s.Serving)
	}
}

// escaped returns the workload with its texts escaped.
func escaped(w api.StaleWorkload) api.StaleWorkload {
	w.Kind, w.Name, w.OnRotate = api.Escape(w.Kind), api.Escape(w.Name), api.OnRotate(api.Escape(string(w.OnRotate)))
	if held := w.Held; held != nil {
		w.Held = &api.RestartHold{Reason: api.Escape(held.Reason), Message: api.Escape(held.Message), Passes: held.Passes}
	}
	return w
}

// doubt returns why Stale of a condition may not be all, or "". A condition with
// another reason than Stale reports that there are none.
func (l StaleList) doubt(s *Serving) string {
	switch {
	case s.Reason != api.ServingStale:
		return ""
	case l.Problem != "":
		return "which workloads serve an older certificate is unknown: " + api.Escape(l.Problem)
	case l.Partial():
		return fmt.Sprintf("the list of workloads that serve an older certificate is partial: it has %d of %d", len(l.Stale), l.Count)
	case len(s.Stale) == 0:
		return "which workloads serve an older certificate is not reported yet"
	}
	return ""
}

// Doubt returns a line that says why the stale workloads of the Services may not be
// all that there are, or "".
func Doubt(services []Service) string {
	for _, s := range services {
		if s.Serving != nil && s.Serving.StaleUnknown != "" {
			return s.Serving.StaleUnknown
		}
	}
	return ""
}

// StaleLines returns a line for each workload: what it is, how many of its pods
// serve an older certificate, and what holds its restart.
func StaleLines(stale []api.StaleWorkload) []string {
	var lines []string
	for _, w := range stale {
		what := "an older certificate"
		if pods.ParseKey(w.Secret) == pods.PodKey {
			what = "a certificate that should have been replaced"
		}
		line := fmt.Sprintf("%s/%s: %d pods serve %s, %s: %s", w.Kind, w.Name, w.Pods, what, api.AnnotationOnRotate, w.OnRotate)
		if w.Pods == 1 {
			line = fmt.Sprintf("%s/%s: 1 pod serves %s, %s: %s", w.Kind, w.Name, what, api.AnnotationOnRotate, w.OnRotate)
		}
		if w.Held != nil {
			line += fmt.Sprintf("; held: %s: %s", w.Held.Reason, w.Held.Message)
		}
		lines = append(lines, line)
	}
	return lines
}

// Holds returns a line for each workload that asks for a restart, and for which
// somebody has to do something before it takes place.
//
// A hold that passes by itself, such as the turn of another workload, is left out:
// the rotator marks those (api.RestartHold.Passes), so that a new reason needs no
// change here, and one that is not marked is taken for one that stays.
func Holds(services []Service) []string {
	var lines []string
	for _, s := range services {
		if s.Serving == nil {
			continue
		}
		for _, w := range s.Serving.Stale {
			if restarts(w) && isHeld(w) {
				lines = append(lines, fmt.Sprintf("%s held: %s: %s", staleName(w), w.Held.Reason, w.Held.Message))
			}
		}
	}
	slices.Sort(lines)
	return slices.Compact(lines) // Services may share a Secret
}

// restarts reports whether the workload asks for a restart.
func restarts(w api.StaleWorkload) bool { return w.OnRotate == api.OnRotateRestart }

// isHeld reports whether its restart does not follow by itself.
func isHeld(w api.StaleWorkload) bool { return w.Held != nil && !w.Held.Passes }

func staleName(w api.StaleWorkload) string { return workloadOf(w).String() }

func workloadOf(w api.StaleWorkload) workload { return workload{w.Namespace, w.Kind, w.Name} }

// workload is what made a pod. Kind is api.PodKind of a pod without a controller.
type workload struct{ namespace, kind, name string }

// String returns "shop Deployment/web", or "shop Pod/web-0" of a pod without a
// controller.
func (w workload) String() string { return w.namespace + " " + w.kind + "/" + w.name }
