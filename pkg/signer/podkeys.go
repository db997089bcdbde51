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
	said := ready != nil && (ready.Reason == string(reasonPodKeys) || ready.Reason == string(reasonNotOptedIn) || state.ReadyOf(svc).Proof != "")
	return api.WantsPodKeys(svc) && (s.OptedIn || said)
}

// podKeysCondition is the Ready condition of a Service whose pods make their keys, nil if the
// one that it has stays, and when to look again, zero if only a change can bring anything.
func (s Situation) podKeysCondition(svc *corev1.Service) (ready *state.Condition, again time.Time) {
	kept := keptText(s.kept(svc))
	said := state.Ready{Proof: state.ReadyOf(svc).Proof}.WithKept(s.kept(svc))
	if s.AuthorityErr != nil {
		if !s.OptedIn || api.HasPodKeys(svc) {
			return nil, again // what the pods have is good, whatever the CA's state is
		}
		problem := blocked(s.AuthorityErr)
		return condition(false, problem.Reason, problem.Message+kept, said), again
	}
	r, err := api.Parse(svc, s.Limits)
	said.Proof, again = s.proof(svc, err == nil)
	switch {
	case !MayHavePodKeys(svc, s.OptedIn, s.Authority):
		const why = ", and nothing shows that the Service asked for the same while it had it: pods get no certificates until the namespace has the label"
		return condition(false, reasonNotOptedIn, s.labelText("does not have")+why+kept, said), again
	case err != nil:
		return condition(false, RefusedReason(err), err.Error()+kept, said), again
	case !s.OptedIn:
		kept += "; " + s.labelText("no longer has")
	}
	message := "each pod makes its key, and gets a certificate for " + describeNames(r.DNSNames, r.IPs)
	return condition(true, reasonPodKeys, message+kept, said.WithNames(allNames(r.DNSNames, r.IPs))), again
}

// proof returns the proof of the opt-in that is to be in the Service's condition, and when it is
// to be another: that by an earlier key of the CA is replaced at its time, as leaves are.
func (s Situation) proof(svc *corev1.Service, valid bool) (proof string, again time.Time) {
	switch by := proofIssuer(svc, s.Authority); {
	case by == nil && !(s.OptedIn && valid):
		return state.ReadyOf(svc).Proof, again // it is one again once an annotation is what it was
	case by != nil && (by == s.Authority.Certificate || s.Authority.Key == nil):
		return state.ReadyOf(svc).Proof, again
	case by != nil:
		if at := s.Authority.Reissue.AtOf(sha256.Sum256([]byte(svc.UID))); s.Now.Before(at) {
			return state.ReadyOf(svc).Proof, at
		}
	}
	return proofOf(svc, s.Authority), again
}

// MayHavePodKeys reports whether the Service, which asks for a certificate, may have any
// for keys that pods, programs or hosts make: its namespace is opted in, or was when the Service
// asked for the same, which the proof in its condition shows. ca is nil as long as it is not known:
// then nothing shows.
func MayHavePodKeys(svc *corev1.Service, optedIn bool, ca *pki.Authority) bool {
	return optedIn || ca != nil && proofIssuer(svc, ca) != nil
}

// WasOptedIn reports whether the signer seems to have issued for the Service before, in whichever
// way. A pod of such a Service may wait for the label of its namespace: that is all that follows.
func WasOptedIn(svc *corev1.Service) bool {
	ready := api.Condition(svc, api.ConditionReady)
	return ready != nil && (ready.Status == metav1.ConditionTrue || ready.Reason == string(reasonNotOptedIn) || state.ReadyOf(svc).Proof != "")
}

// proofOf returns what proves later that the namespace was opted in while the Service asked for what
// it asks for now: a signature of the CA. A CA elsewhere signs certificates alone, so that
// there is no proof: "".
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

// proofIssuer returns the certificate of the CA, the present one or one of before, that signed the
// proof in the Service's condition, or nil.
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

// statement is what a proof signs: which Service it is, and all by which its users change its names.
// The names themselves also follow from the cluster's domain, which is not theirs to change.
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
