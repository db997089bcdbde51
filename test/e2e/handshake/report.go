package handshake

import (
	"crypto/x509"
	"slices"
	"time"

	"github.com/servingcert/servingcert/pkg/pki"
)

// Target is a server, with its expected identity.
type Target struct {
	// Address is HOST:PORT, resolved for each handshake.
	Address string `json:"address"`
	// Name is the name that is verified and sent as SNI.
	Name string `json:"name"`
	// Exchange is the exchange after the handshake; "": none.
	Exchange string `json:"exchange,omitempty"`
	// Plaintext: without TLS.
	Plaintext bool `json:"plaintext,omitempty"`
	// Roots are what is trusted, in PEM; "": what the client trusts.
	Roots string `json:"roots,omitempty"`
}

// Served is a leaf that a target served.
type Served struct {
	Leaf   string    `json:"leaf"`   // SHA-256 of the DER, in hex
	Issuer string    `json:"issuer"` // its common name
	First  time.Time `json:"first"`
	Last   time.Time `json:"last"`
}

// Failure is a failed handshake, with the time at which it began.
type Failure struct {
	At   time.Time     `json:"at"`
	Took time.Duration `json:"took"`
	Err  string        `json:"err"`
}

// Account contains the results of a target.
type Account struct {
	Target     Target          `json:"target"`
	Handshakes int             `json:"handshakes"` // including failed ones
	Failed     int             `json:"failed"`
	Failures   []Failure       `json:"failures"` // the first ones
	Served     []Served        `json:"served"`   // ordered by the first handshake
	Took       []time.Duration `json:"took"`     // of successful handshakes
}

// Report contains the results of all targets.
type Report struct {
	Started  time.Time   `json:"started"`
	Bundles  []time.Time `json:"bundles"` // when the bundle was first read, and each time that it changed
	Accounts []Account   `json:"accounts"`
}

// failuresKept is the maximum number of failures of a target in a report.
const failuresKept = 20

func (a *Account) failed(f Failure) {
	a.Handshakes++
	a.Failed++
	if len(a.Failures) < failuresKept {
		a.Failures = append(a.Failures, f)
	}
}

// succeeded records a success; leaf is nil for plaintext.
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

// clone returns a copy.
func (a *Account) clone() Account {
	b := *a
	b.Failures, b.Served, b.Took = slices.Clone(a.Failures), slices.Clone(a.Served), slices.Clone(a.Took)
	return b
}

// FirstServed returns when the target first served the leaf.
func (a Account) FirstServed(leaf string) (time.Time, bool) {
	for _, s := range a.Served {
		if s.Leaf == leaf {
			return s.First, true
		}
	}
	return time.Time{}, false
}

// Latest returns the leaf that was served last; the zero value if there is none.
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

// Totals returns the numbers of handshakes and failures of all targets.
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
