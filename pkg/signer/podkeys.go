package signer

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// SettleUnnamed returns what the Services of s.Asking are to say, which name no Secret:
// those whose pods make their keys, and those that have asked for a certificate before.
// s.Key names only a namespace, and s.Kept holds all Secrets that a Service owns. It is
// pure.
func SettleUnnamed(s Situation) []ServiceStatus {
	if s.Terminating || Pending(s.AuthorityErr) {
		return nil
	}
	var statuses []ServiceStatus
	for _, svc := range s.Asking {
		switch {
		case s.hasPodKeys(svc):
			if ready, known := s.podKeysCondition(svc); known {
				statuses = append(statuses, settled{Situation: s}.status(svc, ready, true))
			}
		case len(s.Kept[svc.UID]) == 0:
			statuses = append(statuses, ServiceStatus{Service: svc})
		}
	}
	return statuses
}

// hasPodKeys reports whether the Service's pods make their keys, and so whether that is
// what its condition is about. Without the opt-in, they go on if they did before.
func (s Situation) hasPodKeys(svc *corev1.Service) bool {
	return api.WantsPodKeys(svc) && MayHavePodKeys(svc, s.OptedIn)
}

// podKeysCondition is the Ready condition of a Service whose pods make their keys, or
// false if the one that it has stays.
func (s Situation) podKeysCondition(svc *corev1.Service) (ready *metav1.Condition, known bool) {
	kept := s.kept(svc)
	r, err := api.Parse(svc, s.Limits)
	switch {
	case err != nil:
		return condition(false, reasonInvalid, err.Error()+api.KeptText(kept)), true
	case s.AuthorityErr != nil && api.HasPodKeys(svc):
		return nil, false // what the pods have is good, whatever the CA's state is
	case s.AuthorityErr != nil:
		problem := blocked(s.AuthorityErr)
		return condition(false, problem.Reason, problem.Message+api.KeptText(kept)), true
	case !s.OptedIn:
		why := fmt.Sprintf("; namespace %q no longer has label %s=%s", s.Key.Namespace, api.LabelInject, api.InjectEnabled)
		return condition(true, reasonPodKeys, podKeysMessage(r, kept)+why), true
	}
	return condition(true, reasonPodKeys, podKeysMessage(r, kept)), true
}
