package signer

import (
	"crypto/sha256"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// SettleUnnamed returns what the Services of s.Asking are to say, which name no Secret:
// those whose pods make their keys, and those that have asked for a certificate before.
// s.Key names only a namespace, and s.Kept holds all Secrets that a Service owns. It is
// pure.
func SettleUnnamed(s Situation) Settlement {
	var out Settlement
	if s.Terminating || Pending(s.AuthorityErr) {
		return out
	}
	for _, svc := range s.Asking {
		switch {
		case s.hasPodKeys(svc):
			ready, again := s.podKeysCondition(svc)
			if ready != nil {
				out.Services = append(out.Services, settled{Situation: s}.status(svc, ready, true))
			}
			if !again.IsZero() && (out.NextAt.IsZero() || again.Before(out.NextAt)) {
				out.NextAt = again
			}
		case len(s.Kept[svc.UID]) == 0:
			out.Services = append(out.Services, ServiceStatus{Service: svc})
		}
	}
	return out
}

// hasPodKeys reports whether the Service's pods make their keys, and so whether that is
// what its condition is about. Without the opt-in, they did if the condition says so: whether
// they go on is for MayHavePodKeys to say.
func (s Situation) hasPodKeys(svc *corev1.Service) bool {
	ready := api.Condition(svc, api.ConditionReady)
	said := ready != nil && (ready.Reason == string(reasonPodKeys) || ready.Reason == string(reasonNotOptedIn) || api.OptInProof(svc) != "")
	return api.WantsPodKeys(svc) && (s.OptedIn || said)
}

// podKeysCondition is the Ready condition of a Service whose pods make their keys, nil if the
// one that it has stays, and when to look again, zero if only a change can bring anything.
func (s Situation) podKeysCondition(svc *corev1.Service) (ready *metav1.Condition, again time.Time) {
	kept := api.KeptText(s.kept(svc))
	if s.AuthorityErr != nil {
		if !s.OptedIn || api.HasPodKeys(svc) {
			return nil, again // what the pods have is good, whatever the CA's state is
		}
		problem := blocked(s.AuthorityErr)
		return condition(false, problem.Reason, problem.Message+kept+api.OptInText(api.OptInProof(svc))), again
	}
	r, err := api.Parse(svc, s.Limits)
	proof, again := s.proof(svc, err == nil)
	switch {
	case !MayHavePodKeys(svc, s.OptedIn, s.Authority):
		const why = ", and nothing shows that the Service asked for the same while it had it: pods get no certificates until the namespace has the label"
		return condition(false, reasonNotOptedIn, s.labelText("does not have")+why+kept+api.OptInText(proof)), again
	case err != nil:
		return condition(false, RefusedReason(err), err.Error()+kept+api.OptInText(proof)), again
	case !s.OptedIn:
		kept += "; " + s.labelText("no longer has")
	}
	return condition(true, reasonPodKeys, podKeysMessage(r)+kept+api.OptInText(proof)), again
}

// proof returns the proof of the opt-in that is to be in the Service's condition, and when it is
// to be another: that by an earlier key of the CA is replaced at its time, as leaves are.
func (s Situation) proof(svc *corev1.Service, valid bool) (proof string, again time.Time) {
	switch by := proofIssuer(svc, s.Authority); {
	case by == nil && !(s.OptedIn && valid):
		return api.OptInProof(svc), again // it is one again once an annotation is what it was
	case by != nil && (by == s.Authority.Certificate || s.Authority.Key == nil):
		return api.OptInProof(svc), again
	case by != nil:
		if at := s.Authority.Reissue.AtOf(sha256.Sum256([]byte(svc.UID))); s.Now.Before(at) {
			return api.OptInProof(svc), at
		}
	}
	return proofOf(svc, s.Authority), again
}
