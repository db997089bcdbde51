package ca

import (
	"cmp"
	"fmt"
	"time"

	"github.com/servingcert/servingcert/pkg/api"
)

// Situation is the input of Decide.
type Situation struct {
	Parameters
	Now time.Time
	// ClockErr is why the clock is not reliable; no step is taken then.
	ClockErr error

	Secret map[string][]byte // data of the CA Secret; empty if the Secret is absent
	// ExtraRoots are additional roots that clients must trust. ExtraErr is what is wrong
	// with the current content of their ConfigMap.
	ExtraRoots []ExtraRoot
	ExtraErr   error
	// Interim is the data of the interim CA's Secret; empty if the Secret is absent.
	Interim map[string][]byte
	// ManagedExist: a Secret with a managed certificate exists, or the bundle of a CA for clients. It
	// matters only if there is no CA.
	ManagedExist bool
	// Status is the content of the status ConfigMap, nil if it is absent. LastStatus is
	// what this process last read or wrote there, nil if it has just started: anyone who
	// may write ConfigMaps can change Status.
	Status, LastStatus *api.CAStatus
	Trust              api.TrustStatus

	// Request is a person's request. It is empty if RequestErr says what is wrong
	// with it.
	Request    api.RotateRequest
	RequestErr error
	// PromoteDespite is the number of a generation to promote although some targets do
	// not hold its root; 0: none.
	PromoteDespite int
	// Import is the CA in Secret api.CAImportName; nil if there is none, or if it is not
	// valid (ImportErr).
	Import    *Candidate
	ImportErr error
	// Remote is the current remote CA. If HasRemote, either it or RemoteErr is set.
	HasRemote bool
	Remote    *Candidate
	RemoteErr error

	// Leaves is the number of certificates in use for each fingerprint of an issuer.
	// Nil: they are not counted, or, if LeavesCounted, not yet.
	Leaves        map[string]int
	LeavesCounted bool
}

// newestSeen returns the highest number of a generation that the status recorded; 0
// for none.
func (s Situation) newestSeen() int {
	if s.Status == nil {
		return 0
	}
	return max(s.Status.Generation, s.Status.NewestSeen)
}

// lastSigned returns the number of the generation that signs according to the status;
// 0 for none.
func (s Situation) lastSigned() int {
	if s.Status == nil {
		return 0
	}
	return s.Status.Generation
}

// lastImport returns the fingerprint of the last imported CA according to what this process
// last published, or to the status if the process has just started; "" for none.
func (s Situation) lastImport() string {
	if status := cmp.Or(s.LastStatus, s.Status); status != nil {
		return status.Imported
	}
	return ""
}

// asks reports whether there is a request other than the last that was answered.
func (s Situation) asks(answered api.RotateRequest) bool {
	return s.Request.Reason != "" && s.Request != answered
}

// asksAnew is asks for a lost CA: the status records the last request that was answered.
func (s Situation) asksAnew() bool {
	var answered api.RotateRequest
	if s.Status != nil {
		answered = s.Status.Rotation
	}
	return s.asks(answered)
}

// remoteIs reports whether the remote CA currently signs as the generation.
func (s Situation) remoteIs(g Generation) bool {
	return s.Remote != nil && s.Remote.generation().Issuer().Equal(g.Issuer())
}

// remoteAnswer describes the remote CA's current issuer, or why it is not known.
func (s Situation) remoteAnswer() string {
	if s.Remote == nil {
		return fmt.Sprint(s.RemoteErr)
	}
	return "its issuer is " + s.Remote.generation().Issuer().Subject.CommonName
}

// issuedExist describes what ManagedExist has found.
func (s Situation) issuedExist() string {
	if s.forClients() {
		return s.Objects().Trust + " exists"
	}
	return "Secrets with issued certificates exist"
}
