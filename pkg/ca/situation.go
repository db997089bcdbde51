package ca

import (
	"crypto/x509"
	"fmt"
	"time"

	"github.com/servingcert/servingcert/pkg/api"
)

// Situation is what a decision is made from.
type Situation struct {
	Parameters
	Now time.Time
	// ClockErr is why the clock cannot be relied on: no step is taken then.
	ClockErr error

	Secret map[string][]byte // data of the CA Secret; none if it is absent or empty
	// ExtraRoots are what clients are to trust beside the CA. ExtraErr says what is wrong
	// with those that were last written.
	ExtraRoots []*x509.Certificate
	ExtraErr   error
	// Interim is the data of the interim CA's Secret; none if it is absent or empty.
	Interim map[string][]byte
	// ManagedExist: a Secret with a managed certificate exists. It only counts
	// without a CA.
	ManagedExist bool
	// Status is what the status ConfigMap says, nil if it is absent, and
	// LastStatus what this process last saw or wrote there, nil if it has just
	// started: anyone who may write ConfigMaps can change the former.
	Status, LastStatus *api.CAStatus
	Trust              api.TrustStatus // what the trust status says

	// Request is what a person asks for. RequestErr says what is wrong with it; it
	// asks for nothing then.
	Request    api.RotateRequest
	RequestErr error
	// PromoteDespite is the number of a generation that is to sign although some
	// targets do not hold its root; 0: none.
	PromoteDespite int
	// Import is the CA in Secret api.CAImportName, nil if there is none or if
	// ImportErr says what is wrong with it.
	Import    *Candidate
	ImportErr error
	// Remote is the remote CA as it is now. If HasRemote, it or RemoteErr is set.
	HasRemote bool
	Remote    *Candidate
	RemoteErr error

	// Leaves are the certificates in use by the fingerprint of their issuer. Nil:
	// not counted, or, if LeavesCounted, not yet.
	Leaves        map[string]int
	LeavesCounted bool
}

// newestSeen returns the highest number of a generation that the status has seen,
// 0 if none.
func (s Situation) newestSeen() int {
	if s.Status == nil {
		return 0
	}
	return max(s.Status.Generation, s.Status.NewestSeen)
}

// lastSigned returns the number of the generation that signs by the status, 0 if
// none.
func (s Situation) lastSigned() int {
	if s.Status == nil {
		return 0
	}
	return s.Status.Generation
}

// asks reports whether a person asks for something other than what was answered
// last.
func (s Situation) asks(answered api.RotateRequest) bool {
	return s.Request.Reason != "" && s.Request != answered
}

// asksAnew is asks where the CA is lost, by what the status says was answered last.
func (s Situation) asksAnew() bool {
	var answered api.RotateRequest
	if s.Status != nil {
		answered = s.Status.Rotation
	}
	return s.asks(answered)
}

// remoteIs reports whether the remote CA answers that it is the generation.
func (s Situation) remoteIs(g Generation) bool {
	return s.Remote != nil && s.Remote.generation().Issuer().Equal(g.Issuer())
}

// remoteAnswer says which CA the remote CA is, or why that is not known.
func (s Situation) remoteAnswer() string {
	if s.Remote == nil {
		return fmt.Sprint(s.RemoteErr)
	}
	return "its issuer is " + s.Remote.generation().Issuer().Subject.CommonName
}
