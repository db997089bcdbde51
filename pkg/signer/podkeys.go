package signer

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/pki"
)

// UnnamedStatusUpdate returns the StatusUpdate of s.Requesters, which name no Secret: their pods
// make their keys, or they requested a certificate before. s.Key names only a namespace, and
// s.Kept holds all Secrets that a Service owns. It is pure.
func UnnamedStatusUpdate(s Situation) StatusUpdate {
	var out StatusUpdate
	if s.Terminating || Pending(s.AuthorityErr) {
		return out
	}
	for _, svc := range s.Requesters {
		switch {
		case s.hasPodKeys(svc):
			ready, again := s.podKeysCondition(svc)
			if ready != nil {
				out.Services = append(out.Services, applied{Situation: s}.status(svc, ready, true))
			}
			if !again.IsZero() && (out.NextAt.IsZero() || again.Before(out.NextAt)) {
				out.NextAt = again
			}
		case s.Kept[svc.UID].All == 0:
			out.Services = append(out.Services, ServiceStatus{Service: svc})
		}
	}
	return out
}

// hasPodKeys reports whether the Service's condition is about pods that make their keys. Without
// the opt-in, it is if the present condition is; MayHavePodKeys then decides whether the pods
// still get certificates.
func (s Situation) hasPodKeys(svc *corev1.Service) bool {
	ready := api.Condition(svc, api.ConditionReady)
	said := ready != nil && (ready.Reason == string(reasonPodKeys) || ready.Reason == string(reasonNotOptedIn) || state.ReadyOf(svc).Proof != "")
	return api.WantsPodKeys(svc) && (s.OptedIn || said)
}

// podKeysCondition returns the Ready condition of a Service whose pods make their keys, nil if the
// present one stays, and when to reconcile again without a change, or zero.
func (s Situation) podKeysCondition(svc *corev1.Service) (ready *state.Condition, again time.Time) {
	keeps := s.kept(svc)
	kept := keptText(keeps)
	if api.HasOtherPodKeys(svc) {
		return s.otherPodKeysCondition(svc, keeps.Names, kept), again
	}
	said := state.Ready{Proof: state.ReadyOf(svc).Proof}.WithKept(keeps.Names)
	if s.AuthorityErr != nil {
		if !s.OptedIn || api.HasPodKeys(svc) {
			return nil, again // the pods' certificates are valid whatever the state of the CA
		}
		problem := blocked(s.AuthorityErr)
		return condition(false, problem.Reason, problem.Message+kept, said), again
	}
	r, err := api.Parse(svc, s.Limits)
	said.Proof, again = s.proof(svc, err == nil)
	switch {
	case !MayHavePodKeys(svc, s.OptedIn, s.Authority):
		const why = ", and there is no proof that the Service requested the same names while it had it: pods get no certificates until the namespace has the label"
		return condition(false, reasonNotOptedIn, s.labelText("does not have")+why+kept, said), again
	case err != nil:
		return condition(false, RefusedReason(err), err.Error()+kept, said), again
	case !s.OptedIn:
		kept += "; " + s.labelText("no longer has")
	}
	message := "each pod makes its key, and gets a certificate for " + describeNames(r.DNSNames, r.IPs)
	return condition(true, reasonPodKeys, message+kept, said.WithNames(allNames(r.DNSNames, r.IPs))), again
}

// otherPodKeysCondition returns the Ready condition of a Service whose pods have certificates of another signer, which
// nothing here reads: what they serve is seen by the rotator.
func (s Situation) otherPodKeysCondition(svc *corev1.Service, names []string, kept string) *state.Condition {
	said := state.Ready{External: true}.WithKept(names)
	r, err := api.Parse(svc, s.Limits)
	if err != nil {
		return condition(false, RefusedReason(err), err.Error()+kept, said)
	}
	return condition(true, api.ReasonExternal, "each pod makes its key, and another signer issues its certificate: nothing is issued here"+kept, said.WithNames(allNames(r.DNSNames, nil)))
}

// proof returns the proof of the opt-in for the Service's condition, and when it must be replaced:
// a proof by an earlier key of the CA is replaced at its time in the window, as leaves are.
func (s Situation) proof(svc *corev1.Service, valid bool) (proof string, again time.Time) {
	switch by := proofIssuer(svc, s.Authority); {
	case by == nil && !(s.OptedIn && valid):
		return state.ReadyOf(svc).Proof, again // it is valid again if an annotation is changed back
	case by != nil && (by == s.Authority.Certificate || s.Authority.Key == nil):
		return state.ReadyOf(svc).Proof, again
	case by != nil:
		if at := s.Authority.Reissue.AtOf(sha256.Sum256([]byte(svc.UID))); s.Now.Before(at) {
			return state.ReadyOf(svc).Proof, at
		}
	}
	return proofOf(svc, s.Authority), again
}

// MayHavePodKeys reports whether certificates may be issued for the Service with keys of pods,
// programs or hosts: its namespace is opted in, or was when the Service requested the same names,
// by the proof in its condition. Without a CA (nil), no proof can be verified.
func MayHavePodKeys(svc *corev1.Service, optedIn bool, ca *pki.Authority) bool {
	return optedIn || ca != nil && proofIssuer(svc, ca) != nil
}

// WasOptedIn reports whether the signer seems to have issued for the Service before. It is not
// proven, and only decides whether a pod of the Service waits for the label or is denied.
func WasOptedIn(svc *corev1.Service) bool {
	ready := api.Condition(svc, api.ConditionReady)
	return ready != nil && (ready.Status == metav1.ConditionTrue || ready.Reason == string(reasonNotOptedIn) || state.ReadyOf(svc).Proof != "")
}

// proofOf returns the proof that the namespace is opted in while the Service requests its present
// names: a signature of the CA. It returns "" for a remote CA, which signs only certificates.
func proofOf(svc *corev1.Service, ca *pki.Authority) string {
	if ca.Key == nil {
		return ""
	}
	signature, err := pki.SignStatement(ca.Key, statement(svc))
	if err != nil {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(signature)
}

// proofIssuer returns the certificate of the CA, or of an earlier one, that signed the proof in the
// Service's condition, or nil.
func proofIssuer(svc *corev1.Service, ca *pki.Authority) *x509.Certificate {
	proof := state.ReadyOf(svc).Proof
	if proof == "" {
		return nil
	}
	signature, err := base64.RawURLEncoding.DecodeString(proof)
	if err != nil {
		return nil
	}
	text := statement(svc)
	for _, issuer := range slices.Concat([]pki.Issuer{ca.Issuer}, ca.Older) {
		if pki.VerifyStatement(issuer.Certificate, text, signature) == nil {
			return issuer.Certificate
		}
	}
	return nil
}

// statement returns the text that a proof signs: the identity of the Service, and the fields by
// which users change its names. The cluster domain is not included, since users cannot change it.
func statement(svc *corev1.Service) []byte {
	asked := struct {
		UID, ExtraDNSNames string
		Headless           bool
		IPs                []string
	}{UID: string(svc.UID), ExtraDNSNames: svc.Annotations[api.AnnotationExtraDNSNames], Headless: api.IsHeadless(svc)}
	if svc.Annotations[api.AnnotationClusterIPs] == "true" {
		asked.IPs = svc.Spec.ClusterIPs
	}
	text, err := json.Marshal(asked)
	if err != nil {
		panic(err) // strings
	}
	return append([]byte("servingcert.dev/Ready PodKeys: "), text...)
}
