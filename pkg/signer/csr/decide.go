package csr

import (
	"crypto"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer"
	"github.com/servingcert/servingcert/pkg/signer/issue"
	"github.com/servingcert/servingcert/pkg/signer/ratelimit"
	"github.com/servingcert/servingcert/pkg/signer/serviceindex"
)

// VerbServe is the verb on services.servingcert.dev that permits a requester to get
// certificates with the names of the Service of that name.
const VerbServe = "serve"

// DefaultLifetime is the lifetime of a certificate if the request does not set one.
const DefaultLifetime = 24 * time.Hour

// Situation is everything that a decision about one request depends on.
type Situation struct {
	Now     time.Time
	Request *Request
	// Pod is the pod with the name of the requester's, nil if there is none.
	Pod *corev1.Pod
	// Services are Services that request a certificate, in namespaces that are not being deleted:
	// those that select the pod, are too large to know that, are in the Scope or among the Grants.
	// OptedIn reports for their namespaces, and those in the Scope, whether they have the label.
	OptedIn  map[string]bool
	Services []*corev1.Service
	// Holders are the Services that request the Others of the Scope and may have them
	// (signer.MayHavePodKeys): for each name the MaxReviews oldest, the oldest first.
	Holders map[string][]types.NamespacedName
	// Grants reports whether the requester has VerbServe on a Service; nil before a review.
	Grants map[types.NamespacedName]bool
	Limits api.Limits
	// MaxDuration is the longest lifetime of a certificate for a request.
	MaxDuration  time.Duration
	Authority    *pki.Authority // nil exactly if AuthorityErr is not
	AuthorityErr error

	// The result of api.MergeForPod for the Services that select the pod.
	forPod  api.Wanted
	members []api.Member
}

// Verdict is the action on a request.
type Verdict int

// The verdicts.
const (
	Ignore  Verdict = iota // not pending, or the CA is still being read
	Review                 // Grants for Decision.Reviews are needed
	Wait                   // may become valid: an event reports what is missing
	Deny                   // can never become valid
	Fail                   // the same, for a request that was approved
	Approve                // valid; decided again after the approval
	Sign
)

// Decision is the result of Decide.
type Decision struct {
	Verdict Verdict
	Reason  string // of the event and the condition
	Message string // for people
	// Reviews are the Services for which Grants are needed; at most MaxReviews.
	Reviews []types.NamespacedName
	// Sign is the request to sign, and Key its public key.
	Sign issue.SigningRequest
	Key  crypto.PublicKey
	// Share is what the certificate takes of the rates, of Approve and of Sign. Limited puts these
	// off.
	Share ratelimit.Share
	// NextAt is when to decide again without a change, or zero.
	NextAt time.Time
}

// Reasons of Wait, besides those of a CA that cannot sign, and of a Service that is refused
// (signer.RefusedReason).
const (
	reasonNoService  = "NoService"
	reasonNotOptedIn = api.ReasonNotOptedIn
	reasonTrust      = api.ReasonWaitingForTrust
	reasonShort      = "CAEndsTooSoon"
	reasonLimited    = string(signer.ReasonRateLimited)
)

// Reasons of Deny and Fail.
const (
	reasonInvalid        = "InvalidRequest"
	reasonInvalidName    = "InvalidName"
	reasonUnsupportedKey = "UnsupportedKeyType"
	reasonUsages         = "InvalidUsages"
	reasonPodGone        = "PodGone"
	reasonNotPermitted   = "NotPermitted"
	reasonTooMany        = "TooManyServices"
)

// Decide returns what is to be done about the request. It is pure.
func Decide(s Situation) Decision {
	if !s.Request.Pending {
		return Decision{}
	}
	s.Services = slices.DeleteFunc(slices.Clone(s.Services), func(svc *corev1.Service) bool {
		return !signer.MayHavePodKeys(svc, s.OptedIn[svc.Namespace], s.Authority)
	})
	d := s.decide()
	switch {
	case d.Verdict == Deny && s.Request.Approved:
		d.Verdict = Fail
	case d.Verdict == Sign && !s.Request.Approved:
		return Decision{Verdict: Approve, Reason: "Permitted", Message: "the requester may have all names that it asks for", Share: d.Share}
	}
	return d
}

// decide returns the decision, except that it does not consider whether the request was approved.
func (s Situation) decide() Decision {
	a, refused := s.Request.parse()
	if refused != nil {
		return deny(refused.Reason, "%s", refused)
	}
	pod, bound := s.Request.Pod()
	if bound && !pod.is(s.Pod) {
		return deny(reasonPodGone, "the requester's token is bound to pod %s with UID %q, which does not exist, is being deleted, or does not run as ServiceAccount %q",
			pod.NamespacedName, shown(string(pod.UID)), shown(pod.ServiceAccount))
	}
	switch {
	case signer.Pending(s.AuthorityErr):
		return Decision{NextAt: s.Now.Add(signer.CARetry)}
	case s.AuthorityErr != nil:
		return s.waitForCA(string(signer.ReasonOf(s.AuthorityErr, "CAUnavailable")), "%s", s.AuthorityErr)
	}
	if bound {
		s.forPod, s.members, _ = api.MergeForPod(s.Pod, s.selecting(pod), s.Limits)
	}
	missing := a.without(s.allowed())
	if missing.empty() {
		return s.sign(a)
	}
	if s.Grants == nil {
		owners := s.owners(missing.dns)
		if len(owners) > MaxReviews {
			return deny(reasonTooMany, "the names belong to %d Services that do not select the requester: must be at most %d", len(owners), MaxReviews)
		}
		if candidates := s.candidates(owners, missing); len(candidates) > 0 {
			return Decision{Verdict: Review, Reviews: candidates}
		}
	}
	return s.refuse(missing)
}

// MaxReviews is the most SubjectAccessReviews of one decision.
const MaxReviews = 8

// owners returns the Services to whose domains the names belong, without duplicates.
func (s Situation) owners(dnsNames []string) (owners []types.NamespacedName) {
	for _, name := range dnsNames {
		if owner, ok := serviceindex.ServiceOf(name, s.Limits); ok && !slices.Contains(owners, owner) {
			owners = append(owners, owner)
		}
	}
	return owners
}

// candidates returns at most MaxReviews Services for which a grant could permit a missing name:
// the owners, then those that request one of the other names, the oldest first.
func (s Situation) candidates(owners []types.NamespacedName, missing names) []types.NamespacedName {
	all := owners
	add := func(keys []types.NamespacedName) {
		for _, key := range keys {
			if len(all) < MaxReviews && !slices.Contains(all, key) {
				all = append(all, key)
			}
		}
	}
	for _, name := range missing.dns {
		if _, ok := serviceindex.ServiceOf(name, s.Limits); !ok {
			add(s.Holders[name])
		}
	}
	for _, ip := range missing.ips {
		add(s.Holders[serviceindex.NameOf(ip)])
	}
	return all
}

// allowed returns the names that the requester may have: those of its pod, from the Services
// that select it, and those of the Services on which it has VerbServe.
func (s Situation) allowed() (allowed names) {
	allowed.add(slices.Concat(s.forPod.DNSNames, s.forPod.FormerNames), s.forPod.IPs)
	for _, svc := range s.Services {
		if !s.Grants[keyOf(svc)] {
			continue
		}
		if r, err := api.Parse(svc, s.Limits); err == nil {
			allowed.add(slices.Concat(r.DNSNames, r.FormerNames), r.IPs)
		}
	}
	return allowed
}

// selecting returns the Services that select the requester's pod.
func (s Situation) selecting(pod PodReference) (services []*corev1.Service) {
	for _, svc := range s.Services {
		if svc.Namespace == pod.Namespace && api.Selects(svc, s.Pod) {
			services = append(services, svc)
		}
	}
	return services
}

// sign returns the decision to sign exactly the requested names. The requested lifetime starts
// now. The certificate starts earlier, and is never valid for more than MaxDuration.
func (s Situation) sign(a asked) Decision {
	for _, name := range a.dnsNames {
		if !s.Authority.Permits(name) {
			return s.waitForCA(reasonTrust, "clients may still hold a root that does not permit the name %q", name)
		}
	}
	for _, ip := range a.ips {
		if !s.Authority.PermitsAddr(ip) {
			return s.waitForCA(reasonTrust, "clients may still hold a root that does not permit the address %s", ip)
		}
	}
	lifetime := s.Request.Lifetime
	if lifetime == 0 {
		lifetime = DefaultLifetime
	}
	longest := s.MaxDuration
	if len(a.ips) > 0 && s.Authority.Key != nil {
		longest = min(longest, s.Limits.ClusterIPDuration)
	}
	now, notBefore := s.Now.UTC().Truncate(time.Second), pki.NotBefore(s.Now)
	notAfter := issue.EndUnder(s.Authority, now.Add(lifetime), notBefore.Add(longest))
	if notAfter.Sub(now) < minLifetime {
		return s.waitForCA(reasonShort, "the CA signs nothing that expires after %s, and a certificate must be valid for at least %s", notAfter.Format(time.RFC3339), minLifetime)
	}
	d := Decision{Verdict: Sign, Key: a.key, Share: s.Request.share(a), Sign: issue.SigningRequest{
		CSR:          issue.EncodeCSR(a.der),
		CommonName:   a.commonName,
		DNSNames:     a.dnsNames,
		IPs:          a.ips,
		KeyAlgorithm: a.algorithm,
		NotBefore:    notBefore,
		NotAfter:     notAfter,
		Tenant:       s.Request.Tenant(),
	}}
	return d
}

// waitForCA returns a Wait that is decided again after CARetry.
func (s Situation) waitForCA(reason, format string, args ...any) Decision {
	d := wait(reason, format, args...)
	d.NextAt = s.Now.Add(signer.CARetry)
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
