package handshake

import (
	"crypto/x509"
	"slices"
	"time"

	"github.com/servingcert/servingcert/pkg/pki"
)

// Target is a server, and what it has to prove to be.
type Target struct {
	// Address is HOST:PORT, resolved anew for each handshake.
	Address string `json:"address"`
	// Name is what the certificate must be for; it is sent as SNI.
	Name string `json:"name"`
	// Exchange is what is asked and answered after the handshake; "": nothing.
	Exchange string `json:"exchange,omitempty"`
	// Plaintext: there is no handshake.
	Plaintext bool `json:"plaintext,omitempty"`
}

// Served is a leaf that a target has served.
type Served struct {
	Leaf   string    `json:"leaf"`   // SHA-256 of the DER, in hex
	Issuer string    `json:"issuer"` // its common name
	First  time.Time `json:"first"`
	Last   time.Time `json:"last"`
}

// Failure is a handshake that failed, and when it was begun.
type Failure struct {
	At   time.Time     `json:"at"`
	Took time.Duration `json:"took"`
	Err  string        `json:"err"`
}

// Account is what came of a target so far.
type Account struct {
	Target     Target          `json:"target"`
	Handshakes int             `json:"handshakes"` // the failed ones included
	Failed     int             `json:"failed"`
	Failures   []Failure       `json:"failures"` // the first of them
	Served     []Served        `json:"served"`   // in the order in which they were seen first
	Took       []time.Duration `json:"took"`     // of each that succeeded
}

// Report is what came of all targets.
type Report struct {
	Started  time.Time   `json:"started"`
	Bundles  []time.Time `json:"bundles"` // when the bundle file was first read, and when with other roots
	Accounts []Account   `json:"accounts"`
}

// failuresKept bounds what a report tells of a target that is gone for good.
const failuresKept = 20

func (a *Account) failed(f Failure) {
	a.Handshakes++
	a.Failed++
	if len(a.Failures) < failuresKept {
		a.Failures = append(a.Failures, f)
	}
}

// succeeded takes nil for an exchange without TLS.
func (a *Account) succeeded(at time.Time, took time.Duration, leaf *x509.Certificate) {
	a.Handshakes++
	a.Took = append(a.Took, took)
	if leaf == nil {
		return
	}
	fingerprint := pki.Fingerprint(leaf)
	i := slices.IndexFunc(a.Served, func(s Served) bool { return s.Leaf == fingerprint })
	if i < 0 {
		i = len(a.Served)
		a.Served = append(a.Served, Served{Leaf: fingerprint, Issuer: leaf.Issuer.CommonName, First: at})
	}
	a.Served[i].Last = at
}

// clone is a copy that goes on being true.
func (a *Account) clone() Account {
	b := *a
	b.Failures, b.Served, b.Took = slices.Clone(a.Failures), slices.Clone(a.Served), slices.Clone(a.Took)
	return b
}

// FirstServed is when the target served the leaf first.
func (a Account) FirstServed(leaf string) (time.Time, bool) {
	for _, s := range a.Served {
		if s.Leaf == leaf {
			return s.First, true
		}
	}
	return time.Time{}, false
}

// Latest is the leaf that was served last; the zero value if none was.
func (a Account) Latest() Served {
	var latest Served
	for _, s := range a.Served {
		if s.Last.After(latest.Last) {
			latest = s
		}
	}
	return latest
}

// Of returns the account of a target.
func (r Report) Of(t Target) (Account, bool) {
	for _, a := range r.Accounts {
		if a.Target == t {
			return a, true
		}
	}
	return Account{}, false
}

// Totals are the handshakes and failures of all targets.
func (r Report) Totals() (handshakes, failed int) {
	for _, a := range r.Accounts {
		handshakes += a.Handshakes
		failed += a.Failed
	}
	return handshakes, failed
}

// Slowest returns the longest time that a successful handshake took.
func (r Report) Slowest() time.Duration {
	var slowest time.Duration
	for _, a := range r.Accounts {
		for _, took := range a.Took {
			slowest = max(slowest, took)
		}
	}
	return slowest
}
