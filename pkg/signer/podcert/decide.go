package podcert

import (
	"crypto"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer"
	"github.com/servingcert/servingcert/pkg/signer/issue"
	"github.com/servingcert/servingcert/pkg/signer/ratelimit"
)

// minLifetime is the shortest that the API server lets a certificate be valid
// (ValidatePodCertificateRequestStatusUpdate).
const minLifetime = time.Hour

// Situation is everything that a decision about one request depends on.
type Situation struct {
	Now     time.Time
	Request *Request
	// OptedIn: the namespace has the label. Terminating: it is being deleted.
	OptedIn, Terminating bool
	// Pod is what the API server has under the request's name; nil for none.
	Pod *corev1.Pod
	// Services are those of the namespace that ask for a certificate and select the pod, and
	// one that is too large, of which that is not known; others may be among them.
	Services []*corev1.Service
	Limits   api.Limits
	// MaxDuration is the longest that this signer lets such a certificate be valid.
	MaxDuration  time.Duration
	Authority    *pki.Authority // nil exactly if AuthorityErr is not
	AuthorityErr error
}

// Verdict is what is done about a request.
type Verdict int

// The verdicts.
const (
	Ignore Verdict = iota // it is not for this signer to answer, or nobody waits for it
	Wait                  // it may become right: an event says what is missing
	Deny                  // it never can
	Sign
)

// Decision is what follows from a Situation.
type Decision struct {
	Verdict Verdict
	Reason  string // of the event, or of the Denied condition
	Message string // for people
	// Sign and Key are what is to be signed, and for which key.
	Sign issue.SigningRequest
	Key  crypto.PublicKey
	// Share is what the certificate takes of the rates. Limited puts Sign off.
	Share ratelimit.Share
	// NextAt is when to look again, zero if only a change can bring anything.
	NextAt time.Time
}

// Reasons of Wait beside those of a CA that cannot sign and of Services that are refused
// (signer.RefusedReason), and of Deny. A namespace without the label is a reason of both.
const (
	reasonNoService   = "NoService"
	reasonNoNames     = api.ReasonWaitingForTrust
	reasonOldKubelet  = "KubeletTooOld"
	reasonShort       = "CAEndsTooSoon"
	reasonNotOptedIn  = api.ReasonNotOptedIn
	reasonLimited     = string(signer.ReasonRateLimited)
	reasonOtherPod    = "WrongPod"
	reasonUnsupported = certificatesv1.PodCertificateRequestConditionUnsupportedKeyType
	reasonOptions     = certificatesv1.PodCertificateRequestConditionInvalidUserConfig
)

// Decide returns what is to be done about the request. It is pure.
func Decide(s Situation) Decision {
	if !s.Request.Pending || s.Terminating || s.podIsGone() {
		return Decision{}
	}
	if d, final := s.checkRequest(); final {
		return d
	}
	selecting := s.selecting()
	switch {
	case signer.Pending(s.AuthorityErr):
		return Decision{NextAt: s.Now.Add(signer.CARetry)} // the CA is about to be known
	case s.AuthorityErr != nil:
		d := wait(string(signer.ReasonOf(s.AuthorityErr, "CAUnavailable")), "%s", s.AuthorityErr)
		d.NextAt = s.Now.Add(signer.CARetry)
		return d
	}
	if d, out := s.checkOptIn(selecting); out {
		return d
	}
	selecting = slices.DeleteFunc(selecting, func(svc *corev1.Service) bool { return !signer.MayHavePodKeys(svc, s.OptedIn, s.Authority) })
	if len(selecting) == 0 {
		return s.waitForService()
	}
	asked, members, ok := api.MergeForPod(s.Pod, selecting, s.Limits)
	if !ok {
		return wait(string(signer.RefusedReason(members[0].Err)), "%s", refusals(members))
	}
	asked.Params.Duration = min(s.MaxDuration, s.Request.MaxLifetime)
	names, _ := signer.Acceptable(asked, s.Limits, s.Authority)
	if len(names.DNSNames) == 0 && len(names.IPs) == 0 {
		return wait(reasonNoNames, "clients may still hold a root that permits none of the names %q", asked.DNSNames)
	}
	return s.sign(names)
}

// podIsGone reports whether the pod that the kubelet asked for ended: one with its name
// may be there again.
func (s Situation) podIsGone() bool {
	return s.Pod == nil || s.Pod.UID != s.Request.PodUID || s.Pod.DeletionTimestamp != nil
}

// checkRequest returns the decision about what the request says of itself, if that is
// enough for one. The API server checks most of it when a kubelet makes a request; others
// may have the right to make some too.
func (s Situation) checkRequest() (d Decision, final bool) {
	r := s.Request
	if s.Pod.Spec.NodeName != r.NodeName || s.Pod.Spec.ServiceAccountName != r.ServiceAccountName {
		return deny(reasonOtherPod, "pod %q runs on node %q as ServiceAccount %q", r.PodName, s.Pod.Spec.NodeName, s.Pod.Spec.ServiceAccountName), true
	}
	if len(r.Options) > 0 {
		return deny(reasonOptions, "userAnnotations %q: this signer knows none", r.Options), true
	}
	if len(r.CSR) == 0 {
		return wait(reasonOldKubelet, "the request has no stubPKCS10Request: kubelets send one since Kubernetes 1.36"), true
	}
	if _, _, err := keyOf(r.CSR); err != nil {
		return deny(reasonUnsupported, "%s", err), true
	}
	return Decision{}, false
}

// keyOf returns the key of a CSR, and its algorithm.
func keyOf(csr []byte) (crypto.PublicKey, pki.KeyAlgorithm, error) {
	parsed, err := x509.ParseCertificateRequest(csr)
	if err != nil {
		return nil, "", fmt.Errorf("the certificate signing request: %w", err)
	}
	algorithm, ok := pki.AlgorithmOf(parsed.PublicKey)
	if !ok {
		return nil, "", fmt.Errorf("the key is of another kind: must be one of %s", pki.KeyAlgorithms())
	}
	return parsed.PublicKey, algorithm, nil
}

// selecting returns the Services that select the pod.
func (s Situation) selecting() (services []*corev1.Service) {
	for _, svc := range s.Services {
		if api.Selects(svc, s.Pod) {
			services = append(services, svc)
		}
	}
	return services
}

// tooLarge returns the Services that are too large for it to be known what they select.
func (s Situation) tooLarge() (services []*corev1.Service) {
	for _, svc := range s.Services {
		if api.CheckSize(svc) != nil {
			services = append(services, svc)
		}
	}
	return services
}

// waitForService waits for a Service that selects the pod.
func (s Situation) waitForService() Decision {
	for _, svc := range s.tooLarge() {
		return wait(api.ReasonTooLarge, "Service %q asks for a certificate, and it is not known whether it selects the pod: %s", svc.Name, api.CheckSize(svc))
	}
	return wait(reasonNoService, "no Service that asks for a certificate selects the pod")
}

// checkOptIn returns the decision about a pod of which no Service may have a certificate,
// because the namespace is not opted in. It is denied if it never was. If a Service seems to have
// had one in whichever way, the pod may have been in use, and waits for the label.
func (s Situation) checkOptIn(selecting []*corev1.Service) (d Decision, out bool) {
	mayHave := func(svc *corev1.Service) bool { return signer.MayHavePodKeys(svc, s.OptedIn, s.Authority) }
	const message = "namespace %q does not have label %s=%s"
	switch {
	case s.OptedIn || slices.ContainsFunc(selecting, mayHave):
		return Decision{}, false
	case slices.ContainsFunc(slices.Concat(selecting, s.tooLarge()), signer.WasOptedIn):
		return wait(reasonNotOptedIn, message, s.Request.Namespace, api.LabelInject, api.InjectEnabled), true
	}
	return deny(reasonNotOptedIn, message, s.Request.Namespace, api.LabelInject, api.InjectEnabled), true
}

// refusals says why no Service has a part in the certificate.
func refusals(members []api.Member) string {
	var all []string
	for _, m := range members {
		all = append(all, fmt.Sprintf("Service %q: %s", m.Service.Name, m.Err))
	}
	return strings.Join(all, "; ")
}

// sign asks for a certificate with the names, for as long as the kubelet and this signer
// allow and the CA lasts.
func (s Situation) sign(names api.Wanted) Decision {
	key, algorithm, err := keyOf(s.Request.CSR)
	if err != nil {
		return deny(reasonUnsupported, "%s", err)
	}
	notBefore := s.Now.Add(-pki.PodBackdate).UTC().Truncate(time.Second)
	notAfter := issue.EndUnder(s.Authority, notBefore.Add(names.Params.Duration))
	if notAfter.Sub(notBefore) < minLifetime {
		d := wait(reasonShort, "the CA signs nothing that expires after %s, and a pod's certificate must be valid for %s at least", notAfter.Format(time.RFC3339), minLifetime)
		d.NextAt = s.Now.Add(signer.CARetry)
		return d
	}
	share := ratelimit.ShareOfPod(s.Request.UID, s.Request.Namespace, s.Request.PodUID)
	d := Decision{Verdict: Sign, Key: key, Share: share, Sign: issue.SigningRequest{
		CSR:          issue.EncodeCSR(s.Request.CSR),
		DNSNames:     names.DNSNames,
		IPs:          names.IPs,
		KeyAlgorithm: algorithm,
		NotBefore:    notBefore,
		NotAfter:     notAfter,
	}}
	return d
}

// Limited returns the decision about a request that is right, and has to wait for the rates.
func Limited(until time.Time, why string) Decision {
	return Decision{Verdict: Wait, Reason: reasonLimited, Message: why, NextAt: until}
}

func wait(reason, format string, args ...any) Decision {
	return Decision{Verdict: Wait, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

func deny(reason, format string, args ...any) Decision {
	return Decision{Verdict: Deny, Reason: reason, Message: fmt.Sprintf(format, args...)}
}
