package signer

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

// Without the label of its namespace, what a Service has goes on, and it gets nothing new. That it
// had something is shown by what the CA signed, never by words alone: whoever may write the status
// of Services can write the signer's. Of a Secret it is the leaf in it, of keys that pods make a
// proof in the Service's condition.

// optedIn reports whether what the Service asks for counts: by OpenShift's
// annotations it does in every namespace.
func (s Situation) optedIn(svc *corev1.Service) bool {
	return s.OptedIn || api.OpenShiftAnnotation(svc) != ""
}

// mayKeep reports whether the Service may go on with a Secret that it does not ask
// for validly. Without the opt-in, its condition has to name the Secret, and retainedWanted
// leaves it the names that the Secret shows.
func (s Situation) mayKeep(svc *corev1.Service, secret string) bool {
	return s.optedIn(svc) || api.NamesSecret(svc, secret)
}

// shows reports whether the Secret holds a key and its certificate, which the CA signed, now or
// before: whoever wrote them there has what another certificate for their names gives.
func (s Situation) shows() bool {
	f := s.Secret
	return f != nil && s.Authority != nil && !f.Empty && f.Defect == "" && f.Leaf.Usages == nil && f.SignedBy(s.Authority) != nil
}

// withoutOptIn leaves of the names that the Services are given those that a Service with the
// opt-in may have, and those that the Secret shows.
func (s Situation) withoutOptIn(wanted api.Wanted, services []*corev1.Service) api.Wanted {
	if !slices.ContainsFunc(services, func(svc *corev1.Service) bool { return !s.optedIn(svc) }) {
		return wanted
	}
	free := api.Retained(slices.DeleteFunc(slices.Clone(services), func(svc *corev1.Service) bool { return !s.optedIn(svc) }), s.Limits)
	var shown LeafFacts
	if s.shows() {
		shown = s.Secret.Leaf
	}
	name := func(n string) bool {
		return !slices.Contains(shown.DNSNames, n) && !slices.Contains(free.DNSNames, n) && !slices.Contains(free.FormerNames, n)
	}
	wanted.DNSNames = slices.DeleteFunc(slices.Clone(wanted.DNSNames), name)
	wanted.FormerNames = slices.DeleteFunc(slices.Clone(wanted.FormerNames), name)
	wanted.IPs = slices.DeleteFunc(slices.Clone(wanted.IPs), func(ip netip.Addr) bool { return !slices.Contains(shown.IPs, ip) && !slices.Contains(free.IPs, ip) })
	return wanted
}

// notOptedIn is the problem of a Secret that nobody with the opt-in asks for, and that does not
// show that somebody did.
func notOptedIn(s Situation) Problem {
	return Problem{Reason: reasonNotOptedIn, Message: s.labelText("does not have") + ", and the Secret does not hold a key and a certificate of this CA with names of the Service: nothing is issued until the namespace has the label"}
}

// labelText says of the namespace that it "does not have" the label, or the like.
func (s Situation) labelText(verb string) string {
	return fmt.Sprintf("namespace %q %s label %s=%s", s.Key.Namespace, verb, api.LabelInject, api.InjectEnabled)
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
	return ready != nil && (ready.Status == metav1.ConditionTrue || ready.Reason == string(reasonNotOptedIn) || api.OptInProof(svc) != "")
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
	proof := api.OptInProof(svc)
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
