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

// minLifetime is the shortest lifetime that the API server accepts
// (ValidatePodCertificateRequestStatusUpdate).
const minLifetime = time.Hour

// Situation is everything that a decision about one request depends on.
type Situation struct {
	Now     time.Time
	Request *Request
	// OptedIn: the namespace has the label. Terminating: it is being deleted.
	OptedIn, Terminating bool
	// Pod is the pod with the request's pod name, nil if there is none.
	Pod *corev1.Pod
	// Services are the Services of the namespace that request a certificate and select the pod, and
	// one that is too large to know whether it does. It may contain others.
	Services []*corev1.Service
	Limits   api.Limits
	// MaxDuration is the longest lifetime of a pod's certificate.
	MaxDuration  time.Duration
	Authority    *pki.Authority // nil exactly if AuthorityErr is not
	AuthorityErr error
}

// Verdict is the action on a request.
type Verdict int

// The verdicts.
const (
	Ignore Verdict = iota // not pending, its pod is gone, or the CA is still being read
	Wait                  // may become valid: an event reports what is missing
	Deny                  // can never become valid
	Sign
)

// Decision is the result of Decide.
type Decision struct {
	Verdict Verdict
	Reason  string // of the event, or of the Denied condition
	Message string // for people
	// Sign is the request to sign, and Key its public key.
	Sign issue.SigningRequest
	Key  crypto.PublicKey
	// Share is what the certificate takes of the rates. Limited puts Sign off.
	Share ratelimit.Share
	// NextAt is when to decide again without a change, or zero.
	NextAt time.Time
}

// Reasons of Wait, besides those of a CA that cannot sign and of Services that are refused
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
	if d, out := s.checkCA(); out {
		return d
	}
	if s.Request.Client {
		return s.decideClient()
	}
	selecting := s.selecting()
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

// checkCA returns the decision if the CA cannot sign now.
func (s Situation) checkCA() (d Decision, out bool) {
	switch {
	case signer.Pending(s.AuthorityErr):
		return Decision{NextAt: s.Now.Add(signer.CARetry)}, true // the CA is about to be known
	case s.AuthorityErr != nil:
		d := wait(string(signer.ReasonOf(s.AuthorityErr, "CAUnavailable")), "%s", s.AuthorityErr)
		d.NextAt = s.Now.Add(signer.CARetry)
		return d, true
	}
	return d, false
}

// decideClient decides a request for a client's certificate, by the CA for clients. Its identity is the
// ServiceAccount of the pod, which kube-apiserver has bound to the request and which nobody can choose
// for another pod (KEP-4317). A namespace may be labelled later, and a denial would be final.
func (s Situation) decideClient() Decision {
	if !s.OptedIn {
		return wait(reasonNotOptedIn, notOptedIn, s.Request.Namespace, api.LabelInject, api.InjectEnabled)
	}
	var wanted api.Wanted
	wanted.Params.Duration = min(s.MaxDuration, s.Request.MaxLifetime)
	d := s.sign(wanted)
	d.Sign.Identity = pki.SPIFFEID{
		TrustDomain: pki.TrustDomainOf(s.Authority.Certificate), Namespace: s.Request.Namespace, ServiceAccount: s.Request.ServiceAccountName,
	}
	return d
}

// podIsGone reports whether the pod of the request is deleted or being deleted. Another pod may
// have its name.
func (s Situation) podIsGone() bool {
	return s.Pod == nil || s.Pod.UID != s.Request.PodUID || s.Pod.DeletionTimestamp != nil
}

// checkRequest returns the decision if the request alone determines it. The API server checks
// most of a request that a kubelet creates, but not of one by another user who may create them.
func (s Situation) checkRequest() (d Decision, final bool) {
	r := s.Request
	if s.Pod.Spec.NodeName != r.NodeName || s.Pod.Spec.ServiceAccountName != r.ServiceAccountName {
		return deny(reasonOtherPod, "pod %q runs on node %q as ServiceAccount %q", r.PodName, s.Pod.Spec.NodeName, s.Pod.Spec.ServiceAccountName), true
	}
	if len(r.Options) > 0 {
		return deny(reasonOptions, "userAnnotations %q: not supported: must be empty", r.Options), true
	}
	if len(r.CSR) == 0 {
		return wait(reasonOldKubelet, "the request has no stubPKCS10Request: kubelets send one since Kubernetes 1.36"), true
	}
	if _, _, err := keyOf(r.CSR); err != nil {
		return deny(reasonUnsupported, "%s", err), true
	}
	return Decision{}, false
}

// keyOf returns the public key of a CSR, and its algorithm.
func keyOf(csr []byte) (crypto.PublicKey, pki.KeyAlgorithm, error) {
	parsed, err := x509.ParseCertificateRequest(csr)
	if err != nil {
		return nil, "", fmt.Errorf("stubPKCS10Request: %w", err)
	}
	algorithm, ok := pki.AlgorithmOf(parsed.PublicKey)
	if !ok {
		return nil, "", fmt.Errorf("unsupported key type or size: must be one of %s", pki.KeyAlgorithms())
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

// tooLarge returns the Services that are too large to know what they select.
func (s Situation) tooLarge() (services []*corev1.Service) {
	for _, svc := range s.Services {
		if api.CheckSize(svc) != nil {
			services = append(services, svc)
		}
	}
	return services
}

// waitForService returns a Wait for a Service that selects the pod.
func (s Situation) waitForService() Decision {
	for _, svc := range s.tooLarge() {
		return wait(api.ReasonTooLarge, "Service %q requests a certificate, but is too large to know whether it selects the pod: %s", svc.Name, api.CheckSize(svc))
	}
	return wait(reasonNoService, "no Service that requests a certificate selects the pod")
}

// notOptedIn is the message of reasonNotOptedIn.
const notOptedIn = "namespace %q does not have label %s=%s"

// checkOptIn returns the decision if none of the pod's Services may have a certificate, because
// the namespace is not opted in. The request is denied if the namespace never was. If a Service
// seems to have had a certificate, the pod may be in use, and the request waits for the label.
func (s Situation) checkOptIn(selecting []*corev1.Service) (d Decision, out bool) {
	mayHave := func(svc *corev1.Service) bool { return signer.MayHavePodKeys(svc, s.OptedIn, s.Authority) }
	switch {
	case s.OptedIn || slices.ContainsFunc(selecting, mayHave):
		return Decision{}, false
	case slices.ContainsFunc(slices.Concat(selecting, s.tooLarge()), signer.WasOptedIn):
		return wait(reasonNotOptedIn, notOptedIn, s.Request.Namespace, api.LabelInject, api.InjectEnabled), true
	}
	return deny(reasonNotOptedIn, notOptedIn, s.Request.Namespace, api.LabelInject, api.InjectEnabled), true
}

// refusals returns a message with the error of each Service.
func refusals(members []api.Member) string {
	var all []string
	for _, m := range members {
		all = append(all, fmt.Sprintf("Service %q: %s", m.Service.Name, m.Err))
	}
	return strings.Join(all, "; ")
}

// sign returns the decision to sign a certificate with the names. Its lifetime is the longest that
// the request, MaxDuration and the CA permit.
func (s Situation) sign(names api.Wanted) Decision {
	key, algorithm, err := keyOf(s.Request.CSR)
	if err != nil {
		return deny(reasonUnsupported, "%s", err)
	}
	notBefore := s.Now.Add(-pki.PodBackdate).UTC().Truncate(time.Second)
	notAfter := issue.EndUnder(s.Authority, notBefore.Add(names.Params.Duration))
	if notAfter.Sub(notBefore) < minLifetime {
		d := wait(reasonShort, "the CA signs nothing that expires after %s, and a pod's certificate must be valid for at least %s", notAfter.Format(time.RFC3339), minLifetime)
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

// Names returns the names of the certificate to sign, for logs.
func (d Decision) Names() []string {
	if d.Sign.Identity != (pki.SPIFFEID{}) {
		return []string{d.Sign.Identity.String()}
	}
	return d.Sign.DNSNames
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
