package ca

import (
	"bytes"
	"crypto/rand"
	"crypto/x509"
	"fmt"
	"math/big"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/limit"
	"github.com/servingcert/servingcert/pkg/pki"
)

// world is a cluster as far as trust is concerned: the CA Secret and what is
// published of it, targets and the pods that have mounted them, servers. Signer
// and rotator may die at any write, and their clocks be off by two minutes.
type world struct {
	*rapid.T
	outer    *testing.T
	now      time.Time
	config   Situation // what the flags say
	secret   map[string][]byte
	parsed   *State // of secret, nil until somebody asks
	status   *api.CAStatus
	trust    api.TrustStatus
	targets  []*target
	servers  []*server
	request  api.RotateRequest
	imported *Candidate
	reasons  int

	signer    *pki.Authority // what the running signer has read; nil: it has just started
	read      time.Time      // and when
	roots     []*x509.Certificate
	alone     map[int]bool // of these roots no older one signed a cross
	wider     map[int]bool // these permit what the one before does not
	promotion int
	// verified is until when a pair of server and client that verified once
	// surely does: nothing of theirs expires before.
	verified map[string]time.Time
}

// target holds a bundle, and a client that mounts it gets a change later.
type target struct {
	holds, mounted pki.Bundle
	since          time.Time // when holds changed
}

// server has a certificate in its Secret, and may serve an older one.
type server struct {
	stored, served *served
	since          time.Time
}

type served struct {
	leaf  *x509.Certificate
	chain []*x509.Certificate
	roots []*x509.Certificate // oldest first: those whose keys lead to the leaf's
}

// How late a changed file reaches a pod (a kubelet takes up to 92s), and how
// late a server reads it.
const (
	kubelet = 92 * time.Second
	reload  = time.Hour
)

func newWorld(t *rapid.T, outer *testing.T) *world {
	o := situation(nil)
	o.CADuration, o.MaxDuration = 60*day, 5*day
	w := &world{T: t, outer: outer, now: start, config: o, verified: map[string]time.Time{}, alone: map[int]bool{}, wider: map[int]bool{}}
	w.ca()
	for range 3 {
		w.targets = append(w.targets, &target{since: start})
		w.servers = append(w.servers, &server{since: start})
	}
	for range 5 {
		w.ca()
	}
	w.rotator()
	for i := range w.targets {
		w.targets[i].mounted = w.targets[i].holds
	}
	w.issue()
	for i := range w.servers {
		w.servers[i].served = w.servers[i].stored
	}
	return w
}

// skewed is the time by a clock that nobody would refuse to sign by.
func (w *world) skewed() time.Time {
	return w.now.Add(time.Duration(rapid.IntRange(-120, 120).Draw(w.T, "skew")) * time.Second)
}

// ca lets the signer look at the CA once: one step, or one publication. It may
// die before the write, or after.
func (w *world) ca() {
	o := w.config
	o.Secret, o.Now, o.Request, o.Trust, o.Import = w.secret, w.skewed(), w.request, w.trust, w.imported
	o.Status, o.LastStatus = w.status, w.status
	d := Decide(o)
	if d.Problem.Reason == "" {
		w.signer, w.read = d.Authority, w.now
	}
	dies := rapid.SampledFrom([]string{"", "", "", "", "before", "after"}).Draw(w.T, "dies")
	if dies == "before" {
		w.signer = nil
		return
	}
	if d.Step.Kind == "" {
		if d.Status != nil {
			w.publish(*d.Status)
		}
		return
	}
	next, data, err := d.Apply(o)
	require.NoError(w.T, err)
	w.secret, w.parsed = data, nil
	if d.Step.Kind == StepPromote {
		w.promotion++
	}
	if newest := next.Newest(); !slices.ContainsFunc(w.roots, newest.Root.Equal) {
		n := len(w.roots)
		w.alone[n] = newest.Cross == nil
		w.wider[n] = n > 0 && permitsMore(newest.Root, w.roots[n-1])
		w.roots = append(w.roots, newest.Root)
	}
	if dies == "after" {
		w.signer = nil
	}
}

// publish stores the status, as the API server does: as text.
func (w *world) publish(status api.CAStatus) {
	stored := api.ParseCAStatus(status.Data())
	w.status = &stored
}

// rotator brings the bundle to some of the targets, and may die before it says
// so.
func (w *world) rotator() {
	if w.status == nil {
		return
	}
	all, err := pki.ParseBundle([]byte(w.status.Bundle))
	if err != nil {
		return
	}
	bundle := all.Unexpired(w.skewed())
	if len(bundle.Certificates()) == 0 {
		return
	}
	some := rapid.IntRange(0, len(w.targets)).Draw(w.T, "targets written")
	if w.trust.BundleHash == "" {
		some = len(w.targets)
	}
	holding := 0
	for i, t := range w.targets {
		if i < some && t.holds.Hash() != bundle.Hash() {
			t.holds, t.since = bundle, w.now
		}
		if t.holds.Hash() == bundle.Hash() {
			holding++
		}
	}
	if rapid.IntRange(0, 4).Draw(w.T, "rotator dies") > 0 || w.trust.BundleHash == "" {
		w.trust = api.TrustStatus{BundleHash: bundle.Hash(), Targets: len(w.targets), Holding: holding, Pending: len(w.targets) - holding}
	}
}

// issue lets the signer look at every certificate: by what it has read of the CA,
// which may be a little old.
func (w *world) issue() {
	a := w.signer
	if a == nil {
		return
	}
	now := w.skewed()
	for _, s := range w.servers {
		if s.stored == nil || w.due(s.stored, a, now) {
			if made := w.sign(a, now); made != nil {
				s.stored, s.since = made, w.now
			}
		}
	}
}

func (w *world) due(s *served, a *pki.Authority, now time.Time) bool {
	if !now.Before(pki.RenewAt(s.leaf)) && s.leaf.NotAfter.Before(a.Certificate.NotAfter) {
		return true
	}
	ending := func(i pki.Issuer) bool { return len(s.chain) > len(i.Chain) && !now.Before(i.Shorten.At(s.leaf.Raw)) }
	if s.leaf.CheckSignatureFrom(a.Certificate) == nil {
		return ending(a.Issuer)
	}
	known := slices.IndexFunc(a.Older, func(i pki.Issuer) bool { return s.leaf.CheckSignatureFrom(i.Certificate) == nil })
	return known < 0 || ending(a.Older[known]) || !now.Before(a.Reissue.At(s.leaf.Raw))
}

// sign returns a leaf with the names that the authority permits, nil if it may
// not be as long as that takes.
func (w *world) sign(a *pki.Authority, now time.Time) *served {
	var names []string
	for _, name := range []string{"web.shop.svc", "web.shop.svc.cluster.local", "web.shop.svc.example.org", "apps.example.com"} {
		if a.Permits(name) {
			names = append(names, name)
		}
	}
	require.Contains(w.T, names, "web.shop.svc")
	key, err := pki.GenerateKey(pki.ECDSAP256)
	require.NoError(w.T, err)
	notBefore := pki.NotBefore(now)
	lifetime := time.Duration(rapid.Int64Range(1, int64(w.config.MaxDuration/time.Hour)).Draw(w.T, "lifetime")) * time.Hour
	notAfter := limit.Earliest(notBefore.Add(lifetime), a.Certificate.NotAfter)
	if notAfter.After(a.SignUntil) || !notAfter.After(now) {
		return nil
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: names, NotBefore: notBefore, NotAfter: notAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, a.Certificate, key.Public(), a.Key)
	require.NoError(w.T, err)
	leaf, err := x509.ParseCertificate(der)
	require.NoError(w.T, err)
	last := slices.IndexFunc(w.roots, a.Anchors[0].Equal)
	oldest := last
	for !w.alone[oldest] {
		if oldest--; w.wider[oldest+1] {
			break // what it permits beyond the older would be spoilt by that
		}
	}
	return &served{leaf, a.Chain, w.roots[oldest : last+1]}
}

// pass lets time pass, and kubelets and servers do what they do within it.
func (w *world) pass(d time.Duration) {
	w.now = w.now.Add(d)
	for _, t := range w.targets {
		if w.now.Sub(t.since) > kubelet {
			t.mounted = t.holds
		}
	}
	for _, s := range w.servers {
		if s.stored != nil && w.now.Sub(s.since) > reload {
			s.served = s.stored
		}
	}
	if w.now.Sub(w.read) > 30*time.Second {
		w.signer = nil // a leader that is none any more has stopped by then
	}
}

// permitsMore reports whether a root permits any name that another does not.
func permitsMore(root, than *x509.Certificate) bool {
	for _, name := range []string{"web.shop.svc", "web.shop.svc.cluster.local", "web.shop.svc.example.org", "apps.example.com", "elsewhere.test"} {
		if pki.PermitsDNS(root, name) && !pki.PermitsDNS(than, name) {
			return true
		}
	}
	return pki.ConstraintsOf(root).PermitIPs && !pki.ConstraintsOf(than).PermitIPs
}

// holds checks invariant 6: every client that is as far behind as it may be
// verifies every server that is.
func (w *world) holds() {
	now := w.now.Add(time.Duration(rapid.IntRange(-120, 120).Draw(w.T, "client's skew")) * time.Second)
	for _, s := range w.servers {
		for _, what := range []*served{s.stored, s.served} {
			if what == nil || now.After(what.leaf.NotAfter) {
				continue
			}
			for _, t := range w.targets {
				for _, bundle := range []pki.Bundle{t.mounted, t.holds} {
					// Who was not brought a root before the last one ended has none: the
					// rotator was dead for a third of a CA's life.
					if roots := bundle.Unexpired(now.Add(2 * clockMargin)).Certificates(); len(roots) > 0 {
						w.verifies(what, roots, now)
						w.foundByGnuTLS(what, roots, now)
					}
				}
			}
			if oldest := w.oldest(what, now); oldest != nil {
				w.verifies(what, []*x509.Certificate{oldest}, now)
			}
		}
	}
}

// foundByGnuTLS checks that the root of a path is found as GnuTLS looks for it: by
// the issuer of the last certificate that is sent, or as that one's subject. A
// signer that was dead for the hours before that one expires leaves it where it is.
func (w *world) foundByGnuTLS(s *served, roots []*x509.Certificate, now time.Time) {
	last := append([]*x509.Certificate{s.leaf}, s.chain...)[len(s.chain)]
	if now.Add(clockMargin).After(last.NotAfter) {
		return
	}
	if !slices.ContainsFunc(roots, func(r *x509.Certificate) bool {
		return bytes.Equal(r.RawSubject, last.RawIssuer) || bytes.Equal(r.RawSubject, last.RawSubject)
	}) {
		w.outer.Errorf("a chain of %d that ends with %s by %s leads GnuTLS to none of %d roots; state.json: %s",
			len(s.chain), last.Subject.CommonName, last.Issuer.CommonName, len(roots), w.secret[keyState])
		w.FailNow()
	}
}

// oldest returns the oldest root that has not expired and permits the names.
func (w *world) oldest(s *served, now time.Time) *x509.Certificate {
	for _, root := range s.roots {
		ended := now.Add(2 * markSlack).After(root.NotAfter) // see planOwn: a full ladder waits so long
		if !ended && !slices.ContainsFunc(s.leaf.DNSNames, func(n string) bool { return !pki.PermitsDNS(root, n) }) {
			return root
		}
	}
	return nil
}

func (w *world) verifies(s *served, roots []*x509.Certificate, now time.Time) {
	key, until := string(s.leaf.Signature), s.leaf.NotAfter
	for _, c := range append(append([]*x509.Certificate{}, s.chain...), roots...) {
		key, until = key+string(c.Signature), limit.Earliest(until, c.NotAfter)
	}
	if now.Before(w.verified[key]) {
		return
	}
	pool, chain := x509.NewCertPool(), x509.NewCertPool()
	var held, sent []string
	for _, c := range roots {
		pool.AddCert(c)
		held = append(held, c.Subject.CommonName)
	}
	for _, c := range s.chain {
		chain.AddCert(c)
		sent = append(sent, fmt.Sprintf("%s by %s", c.Subject.CommonName, c.Issuer.CommonName))
	}
	if _, err := s.leaf.Verify(x509.VerifyOptions{Roots: pool, Intermediates: chain, CurrentTime: now}); err != nil {
		// Keys are drawn anew each time, so that rapid cannot always repeat it.
		w.outer.Errorf("%v: at %s a client that holds %q rejects a leaf of %s for %q, valid from %s until %s, sent with %q; state.json: %s",
			err, now, held, s.leaf.Issuer.CommonName, s.leaf.DNSNames, s.leaf.NotBefore, s.leaf.NotAfter, sent, w.secret[keyState])
		w.FailNow()
	}
	w.verified[key] = until
}
