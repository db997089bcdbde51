package kubelet

import (
	"fmt"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/limit"
	"github.com/servingcert/servingcert/pkg/signer/ratelimit"
)

// Situation is everything that a decision about one request depends on.
type Situation struct {
	Now     time.Time
	Request *Request
	Allowed Allowed
	// Node is the requester's, nil if it does not exist.
	Node *Node
	// Others are the other Nodes that report a requested name or address, or have it as their
	// own name. The key is that name or address.
	Others map[string][]string
}

// Verdict is the action on a request.
type Verdict int

// The verdicts.
const (
	Ignore  Verdict = iota // it has an answer, or is for another signer
	Wait                   // may become valid: an event reports what is missing
	Deny                   // can never become valid
	Approve                // kube-controller-manager then signs it
)

// Decision is the result of Decide.
type Decision struct {
	Verdict Verdict
	Reason  string // of the event, the condition and the metric
	Message string // for people
	// Share is what the approval takes of the Rates. Situation.Limited puts it off.
	Share ratelimit.Share
	// NextAt is when to decide again without a change, or zero.
	NextAt time.Time
}

// Reasons of Wait.
const (
	reasonNoNode      = "NodeNotFound"
	reasonNotReported = "AddressNotReported"
	reasonTwice       = "AddressClaimedTwice"
	reasonLimited     = "RateLimited"
)

// Reasons of Deny, besides those of csr.Read.
const (
	reasonNotANode      = "NotANode"
	reasonInvalid       = "InvalidRequest"
	reasonSubject       = "InvalidSubject"
	reasonName          = "InvalidName"
	reasonUsages        = "InvalidUsages"
	reasonNotPermitted  = "NameNotPermitted"
	reasonOfAnotherNode = "AddressOfAnotherNode"
	reasonTooOld        = "RequestTooOld"
)

// reasonApproved is the reason of Approve.
const reasonApproved = "NodeAddresses"

const (
	// MaxAge is how long a kubelet waits for an answer: client-go's certificate manager then
	// creates another request with a new key.
	MaxAge = 15 * time.Minute
	// claimRetry is the interval of decisions while another Node reports the same address: its
	// changes do not enqueue the requests of this Node.
	claimRetry = time.Minute
)

// Rates returns the limits of approvals, for each node and for all together. A kubelet creates a
// request when it starts without a certificate, when its addresses change, and when its
// certificate is due for renewal.
func Rates() ratelimit.Rates {
	return ratelimit.Rates{Secret: limit.Limit{Burst: 10, Interval: 5 * time.Minute}, Namespace: limit.Limit{Burst: 1000, Interval: 100 * time.Millisecond}}
}

// Asked returns the names and addresses in the request; none if it is not valid for a kubelet.
func (r *Request) Asked() Asked {
	a, _ := r.parse()
	return a
}

// Decide returns what is to be done about the request. It is pure.
func Decide(s Situation) Decision {
	if !s.Request.Pending {
		return Decision{}
	}
	d := s.decide()
	expires := s.Request.Created.Add(MaxAge)
	switch {
	case d.Verdict != Wait && d.Verdict != Approve:
		return d
	case !s.Now.Before(expires):
		return *denied(reasonTooOld, "created at %s, more than %s ago: its kubelet has replaced it with another request%s", s.Request.Created.UTC().Format(time.RFC3339), MaxAge, missing(d))
	case d.Verdict == Wait && (d.NextAt.IsZero() || d.NextAt.After(expires)):
		d.NextAt = expires
	}
	return d
}

// Limited returns the decision about a request that is right, and has to wait for the Rates.
func (s Situation) Limited(until time.Time, why string) Decision {
	return Decision{Verdict: Wait, Reason: reasonLimited, Message: why, NextAt: limit.Earliest(until, s.Request.Created.Add(MaxAge))}
}

// missing returns the reason that a request waited for until it was too old.
func missing(d Decision) string {
	if d.Verdict != Wait {
		return ""
	}
	return "; it waited because " + d.Message
}

// decide returns the decision regardless of the request's age. Checks whose result is final come
// first.
func (s Situation) decide() Decision {
	asked, refused := s.Request.parse()
	if refused != nil {
		return *refused
	}
	for _, check := range []func(Asked) *Decision{s.isAllowed, s.isThere, s.isReported, s.isClaimedOnce} {
		if d := check(asked); d != nil {
			return *d
		}
	}
	return Decision{
		Verdict: Approve, Reason: reasonApproved, Share: s.share(),
		Message: "its Node reports all requested names and addresses, and the signer's flags allow them",
	}
}

// isAllowed checks that the operator allows the names and addresses.
func (s Situation) isAllowed(a Asked) *Decision {
	node, _ := s.Request.NodeName()
	for _, name := range a.Names {
		if why := s.Allowed.refuseName(name, node); why != "" {
			return denied(reasonNotPermitted, "DNS name %q: %s", shown(name), why)
		}
	}
	for _, ip := range a.IPs {
		if why := s.Allowed.refuseIP(ip); why != "" {
			return denied(reasonNotPermitted, "IP address %s: %s", ip, why)
		}
	}
	return nil
}

// isThere checks that the Node exists.
func (s Situation) isThere(Asked) *Decision {
	node, _ := s.Request.NodeName()
	switch {
	case s.Node == nil:
		return waits(reasonNoNode, "Node %q does not exist", shown(node))
	case s.Node.DeletionTimestamp != nil:
		return waits(reasonNoNode, "Node %q is being deleted", shown(node))
	}
	return nil
}

// isReported checks that the Node reports the names and addresses. One that only another Node has
// is denied.
func (s Situation) isReported(a Asked) *Decision {
	var missing []string
	reported := s.Node.Reports()
	for _, claim := range a.Claims() {
		if slices.Contains(reported, claim) {
			continue
		}
		if others := s.others(claim); len(others) > 0 {
			return denied(reasonOfAnotherNode, "%s: Node %q does not report it, and it belongs to Node %q", claim, shown(s.Node.Name), shown(others[0]))
		}
		missing = append(missing, claim)
	}
	if len(missing) == 0 {
		return nil
	}
	return waits(reasonNotReported, "Node %q does not report %s among its addresses", shown(s.Node.Name), api.Shorten(fmt.Sprintf("%q", missing), 400))
}

// isClaimedOnce checks that no other Node has the names and addresses too. If one does, neither
// gets a certificate, since it is not known which is right; their kubelets keep the ones they have.
func (s Situation) isClaimedOnce(a Asked) *Decision {
	for _, claim := range a.Claims() {
		if others := s.others(claim); len(others) > 0 {
			d := waits(reasonTwice, "%s: Node %q also has it", claim, shown(others[0]))
			d.NextAt = s.Now.Add(claimRetry)
			return d
		}
	}
	return nil
}

// others returns the other Nodes that have a name or an address. A Node's own name belongs to
// it, even if others report it.
func (s Situation) others(claim string) []string {
	if claim == s.Node.Name {
		return nil
	}
	return s.Others[claim]
}

// share returns what an approval takes of the Rates: a token of the node, and one of all nodes.
func (s Situation) share() ratelimit.Share {
	tenant := TenantOf(s.Node.Name)
	return ratelimit.Share{
		Request: ratelimit.RequestName(tenant, s.Request.UID),
		Subject: types.NamespacedName{Namespace: nodesGroup, Name: tenant},
		Text:    "one node",
		Group:   "all nodes",
	}
}

// Approval returns the condition that approves or denies a request. The API server adds the
// times.
func Approval(d Decision) certificatesv1.CertificateSigningRequestCondition {
	kind := certificatesv1.CertificateApproved
	if d.Verdict == Deny {
		kind = certificatesv1.CertificateDenied
	}
	return certificatesv1.CertificateSigningRequestCondition{Type: kind, Status: corev1.ConditionTrue, Reason: d.Reason, Message: api.Shorten(d.Message, maxMessage)}
}

// maxMessage is the most characters of a condition's message.
const maxMessage = 1024

func waits(reason, format string, args ...any) *Decision {
	return &Decision{Verdict: Wait, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

func denied(reason, format string, args ...any) *Decision {
	return &Decision{Verdict: Deny, Reason: reason, Message: fmt.Sprintf(format, args...)}
}
