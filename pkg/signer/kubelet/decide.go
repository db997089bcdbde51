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
	// Node is the requester's; nil if there is none.
	Node *Node
	// Others are the other Nodes that report a name or an address of Request.Asked, or have it as
	// their name, by it.
	Others map[string][]string
}

// Verdict is what is done about a request.
type Verdict int

// The verdicts.
const (
	Ignore  Verdict = iota // it has an answer, or is for another signer
	Wait                   // it may become right: an event says what is missing
	Deny                   // it never can
	Approve                // kube-controller-manager signs it then
)

// Decision is what follows from a Situation.
type Decision struct {
	Verdict Verdict
	Reason  string // of the event, the condition and the metric
	Message string // for people
	// Share is what the approval takes of the Rates. Situation.Limited puts it off.
	Share ratelimit.Share
	// NextAt is when to look again, zero if there is nothing to look for.
	NextAt time.Time
}

// Reasons of Wait.
const (
	reasonNoNode      = "NodeNotFound"
	reasonNotReported = "AddressNotReported"
	reasonTwice       = "AddressClaimedTwice"
	reasonLimited     = "RateLimited"
)

// Reasons of Deny, beside those of csr.Read.
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
	// makes a new key, and asks anew.
	MaxAge = 15 * time.Minute
	// claimRetry is how often it is looked whether another Node still reports the same: its
	// changes do not lead to the requests of this one.
	claimRetry = time.Minute
)

// Rates returns how often requests are approved: of one node, and of all together. A kubelet asks
// when it starts without a certificate, when its addresses change, and when the certificate
// nears its end.
func Rates() ratelimit.Rates {
	return ratelimit.Rates{Secret: limit.Limit{Burst: 10, Interval: 5 * time.Minute}, Namespace: limit.Limit{Burst: 1000, Interval: 100 * time.Millisecond}}
}

// Asked returns the names and addresses of the request; none if it is not a kubelet's.
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
		return *denied(reasonTooOld, "it was made at %s, more than %s ago, and its kubelet has asked anew since%s", s.Request.Created.UTC().Format(time.RFC3339), MaxAge, missing(d))
	case d.Verdict == Wait && (d.NextAt.IsZero() || d.NextAt.After(expires)):
		d.NextAt = expires
	}
	return d
}

// Limited returns the decision about a request that is right, and has to wait for the Rates.
func (s Situation) Limited(until time.Time, why string) Decision {
	return Decision{Verdict: Wait, Reason: reasonLimited, Message: why, NextAt: limit.Earliest(until, s.Request.Created.Add(MaxAge))}
}

// missing returns what a request that has become too old waited for.
func missing(d Decision) string {
	if d.Verdict != Wait {
		return ""
	}
	return ": it waited because " + d.Message
}

// decide does not look at the age of the request. What can never be right comes before what may
// become so.
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
		Message: "it asks for names and addresses that its Node reports and that the signer was told nodes have",
	}
}

// isAllowed: the operator lets nodes have it.
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

// isThere: the Node is.
func (s Situation) isThere(Asked) *Decision {
	node, _ := s.Request.NodeName()
	switch {
	case s.Node == nil:
		return waits(reasonNoNode, "there is no Node %q", shown(node))
	case s.Node.DeletionTimestamp != nil:
		return waits(reasonNoNode, "Node %q is being deleted", shown(node))
	}
	return nil
}

// isReported: the Node reports it. What another Node has in its place is that one's.
func (s Situation) isReported(a Asked) *Decision {
	var missing []string
	reported := s.Node.Reports()
	for _, claim := range a.Claims() {
		if slices.Contains(reported, claim) {
			continue
		}
		if others := s.others(claim); len(others) > 0 {
			return denied(reasonOfAnotherNode, "%s: Node %q does not report it, and it is of Node %q", claim, shown(s.Node.Name), shown(others[0]))
		}
		missing = append(missing, claim)
	}
	if len(missing) == 0 {
		return nil
	}
	return waits(reasonNotReported, "Node %q does not report %s among its addresses", shown(s.Node.Name), api.Shorten(fmt.Sprintf("%q", missing), 400))
}

// isClaimedOnce: no other Node has it too. Which of them is right is not known, so neither
// gets it: its kubelet serves the certificate that it has.
func (s Situation) isClaimedOnce(a Asked) *Decision {
	for _, claim := range a.Claims() {
		if others := s.others(claim); len(others) > 0 {
			d := waits(reasonTwice, "%s: Node %q has it too", claim, shown(others[0]))
			d.NextAt = s.Now.Add(claimRetry)
			return d
		}
	}
	return nil
}

// others returns the other Nodes that have a name or an address. The name of a Node is its own,
// whoever else reports it.
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

// maxMessage is how many characters of a message are written.
const maxMessage = 1024

func waits(reason, format string, args ...any) *Decision {
	return &Decision{Verdict: Wait, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

func denied(reason, format string, args ...any) *Decision {
	return &Decision{Verdict: Deny, Reason: reason, Message: fmt.Sprintf(format, args...)}
}
