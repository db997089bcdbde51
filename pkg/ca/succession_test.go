package ca

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

// script takes one step after the other, with a rotator that is quick.
type script struct {
	*testing.T
	Observed
}

func newScript(t *testing.T) *script {
	s := &script{t, observed(nil)}
	s.take(StepFresh)
	return s
}

func (s *script) state() State {
	state, err := ParseState(s.Secret)
	require.NoError(s, err)
	return state
}

// trusted has every target hold what is published.
func (s *script) trusted() {
	s.Trust = Trust{BundleHash: s.state().Bundle(s.Now).Hash(), Targets: 3, Holding: 3}
}

// take takes the step that is next, which must be of the kind.
func (s *script) take(kind StepKind) Decision {
	s.Helper()
	d := Decide(s.Observed)
	require.Equal(s, kind, d.Step.Kind, "%+v", d)
	if kind != "" {
		next, err := d.Apply(s.Observed)
		require.NoError(s, err)
		s.Secret = secretData(s, next)
	}
	return d
}

// promote takes a generation that waits to where it signs.
func (s *script) promote() {
	s.Helper()
	s.trusted()
	s.take(StepTrusted)
	s.Now = s.Now.Add(s.Soak)
	s.take(StepPromote)
	s.Now = s.Now.Add(time.Minute)
}

func (s *script) ask(mode api.RotateMode, reason string) {
	s.Request = Request{Mode: mode, Reason: reason}
}

func (s *script) phase() string {
	phase, _ := s.state().phase(s.Now, s.Reissue)
	return phase
}

func TestForcedSuccession(t *testing.T) {
	s := newScript(t)
	first := s.state().signing()
	s.ask(api.RotateOverlap, "audit")
	s.take(StepPrepare)
	assert.Equal(t, api.PhaseWait, s.phase())
	waiting := s.state()
	assert.Equal(t, 1, waiting.Signing, "what nobody trusts yet does not sign")
	assert.Equal(t, "generation 2 was made and does not sign yet", waiting.Rotation.outcome(waiting))
	assert.Len(t, waiting.Bundle(s.Now).Certificates(), 2)

	for what, trust := range map[string]Trust{
		"is the rotator running?":                     {},
		"has not taken up the new bundle":             {BundleHash: "older", Targets: 3, Holding: 3},
		"2 of 3 targets hold the new root; not: X":    {BundleHash: waiting.Bundle(s.Now).Hash(), Targets: 3, Holding: 2, Pending: 1, NotHolding: "X"},
		"kubectl servingcert rotate-ca --proceed 2":   {BundleHash: waiting.Bundle(s.Now).Hash(), Targets: 3, Holding: 2, Refusing: 1, NotHolding: "X"},
		"1 of 3 targets hold the new root; not: X; Y": {BundleHash: waiting.Bundle(s.Now).Hash(), Targets: 3, Holding: 1, Pending: 2, NotHolding: "X\nY"},
	} {
		s.Trust = trust
		assert.Contains(t, s.take("").Waiting, what)
	}
	s.trusted()
	s.take(StepTrusted)
	d := s.take("")
	assert.Contains(t, d.Waiting, "pods get it until 2026-03-01T12:05:00Z")
	assert.Equal(t, s.Now.Add(s.Soak), d.Next)
	s.Now = s.Now.Add(s.Soak - time.Second)
	s.take("")
	s.Now = s.Now.Add(time.Second)
	s.Trust.Pending = 1
	s.take("")
	s.Trust.Pending = 0
	s.take(StepPromote)

	promoted := s.state()
	assert.Equal(t, 2, promoted.Signing)
	assert.Nil(t, promoted.Generations[0].Key, "the old key is erased")
	assert.False(t, promoted.signing().UsedUntil.Before(s.Now.Add(maxDuration)), "the mark is there before the first leaf")
	assert.Equal(t, "generation 2 was made and signs", promoted.Rotation.outcome(promoted))
	assert.Equal(t, api.PhaseReissue, s.phase())
	s.take("")
	s.Now = s.Now.Add(s.Reissue)
	assert.Equal(t, api.PhaseRetire, s.phase())
	assert.Contains(t, s.take("").Waiting, "the last certificate of generation 1")

	s.Now = first.UsedUntil.Add(clockMargin)
	s.take(StepRaise)
	s.take("")
	assert.Equal(t, api.PhaseRetire, s.phase())
	s.Now = s.Now.Add(time.Second)
	s.take("")
	assert.Equal(t, api.PhaseStable, s.phase())
	kept := s.state()
	assert.Len(t, kept.Bundle(s.Now).Certificates(), 2, "a chain that ends at the first root is served: GnuTLS must find that in the bundle")
	assert.Len(t, kept.Authority(s.Now, s.Domain, s.Reissue).Chain, 1, "for clients that still hold the first root")

	retired, _ := kept.tidied(first.Root.NotAfter.Add(time.Second))
	assert.Len(t, retired.Generations, 1)
}

func TestOneSuccessionPerRequest(t *testing.T) {
	s := newScript(t)
	s.ask(api.RotateOverlap, "audit")
	s.take(StepPrepare)
	s.take("")
	s.ask(api.RotateOverlap, "another's") // asked for at the same moment, or a little later
	assert.Contains(t, s.take("").Waiting, `Then rotation "another's" follows`)
	s.ask(api.RotateOverlap, "audit")
	s.promote()
	s.take("")

	s.ask(api.RotateOverlap, "another's")
	s.take(StepPrepare)
	s.promote()
	assert.Equal(t, 3, s.state().Signing)
	assert.Len(t, s.state().Authority(s.Now, s.Domain, s.Reissue).Older, 2)
	s.ask(api.RotateForce, "another's")
	s.take(StepPrepare)
}

// A fourth within the life of the first would need a fourth cross.
func TestAFourthIsRefused(t *testing.T) {
	s := newScript(t)
	for _, reason := range []string{"a", "b", "c"} {
		s.ask(api.RotateOverlap, reason)
		s.take(StepPrepare)
		s.promote()
	}
	require.Len(t, s.state().Authority(s.Now, s.Domain, s.Reissue).Chain, maxCrosses)
	s.ask(api.RotateOverlap, "d")
	s.take(StepRefuse)
	s.take("")
	assert.Contains(t, s.state().Rotation.outcome(s.state()), "refused: clients that hold only generation 1 (servingcert CA 1")
	s.ask("", "")
	s.take("")

	newest := s.state().newest()
	s.Now = newest.Root.NotAfter.Add(-pki.Lifetime(newest.Root) / 3) // not a person's word: it waits
	s.take(StepRaise)
	d := s.take("")
	require.Len(t, d.Warnings, 1)
	assert.Equal(t, WarnLadder, d.Warnings[0].Reason)
	s.ask(api.RotateForce, "d")
	s.take(StepPrepare)
	s.promote()
	a := s.state().Authority(s.Now, s.Domain, s.Reissue)
	assert.Len(t, a.Chain, maxCrosses)
	assert.Len(t, a.Anchors, maxCrosses+1, "the first root is left out")
	assert.Len(t, a.Bundle.Certificates(), 5)
}

func TestDistrustNow(t *testing.T) {
	s := newScript(t)
	s.ask(api.RotateOverlap, "audit")
	s.take(StepPrepare)
	before := s.state()
	s.ask(api.RotateDistrust, "stolen")
	s.take(StepFresh)
	s.take("")
	fresh := s.state()
	require.Len(t, fresh.Generations, 1, "the one that was prepared lay in the same Secret")
	assert.Equal(t, 3, fresh.Signing)
	assert.Nil(t, fresh.Generations[0].Cross)
	for _, g := range before.Generations {
		assert.NotContains(t, fresh.Bundle(s.Now).Certificates(), g.Root)
	}
	a := fresh.Authority(s.Now, s.Domain, s.Reissue)
	assert.Empty(t, a.Older, "what was signed before is nobody's")
	assert.Equal(t, pki.Window{}, a.Reissue, "everything is replaced at once")
}

func TestReplaceLost(t *testing.T) {
	s := newScript(t)
	s.Secret, s.StatusExists, s.StatusGeneration = nil, true, 4
	s.take("")
	s.ask(api.RotateReplaceLost, "disk")
	s.take(StepFresh)
	s.take("")
	assert.Equal(t, 5, s.state().Signing, "no number is used twice")
	assert.Equal(t, "disk", s.state().Rotation.Reason)
}

// A CA that has ended, or is about to, does not wait for trust.
func TestNoTimeToWait(t *testing.T) {
	s := newScript(t)
	root := s.state().signing().Root
	s.Now = root.NotAfter.Add(-s.Soak)
	s.take(StepRaise)
	s.take(StepPrepare)
	s.take(StepPromote)

	s = newScript(t)
	s.Now = s.state().signing().Root.NotAfter.Add(day)
	s.take(StepRaise)
	d := s.take(StepPrepare)
	assert.Equal(t, ReasonExpired, d.Reason)
	s.take(StepPromote)
	assert.Nil(t, s.state().signing().Cross, "by an expired CA it helps nobody")
	s.take(StepRetire)
	assert.Empty(t, s.take("").Reason)
}

// Names that an older root does not permit stay out until it has retired, and the
// names of a former cluster domain in.
func TestChangedClusterDomain(t *testing.T) {
	s := newScript(t)
	s.Domain, s.Wanted = "example.org", pki.Constraints{PermittedDNS: []string{"svc", "example.org"}}
	permits := func() [3]bool {
		a := s.state().Authority(s.Now, s.Domain, s.Reissue)
		return [3]bool{a.Permits("web.shop.svc"), a.Permits("web.shop.svc.cluster.local"), a.Permits("web.shop.svc.example.org")}
	}
	former := func() []string { return s.state().Authority(s.Now, s.Domain, s.Reissue).FormerDomains }
	s.take(StepPrepare)
	assert.Equal(t, [3]bool{true, true, false}, permits())
	assert.Equal(t, []string{"cluster.local"}, former())
	s.promote()
	assert.Equal(t, [3]bool{true, true, false}, permits(), "the first root still judges")
	assert.Equal(t, []string{"cluster.local"}, former())
	s.Now = s.state().Generations[0].UsedUntil.Add(clockMargin + time.Second)
	s.take(StepRaise)
	s.take(StepRetire)
	assert.True(t, permits()[2])
	assert.Empty(t, former())
	s.take("")
}

// authority is a CA that somebody else made.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// foreignCA makes a CA of another maker, signed by parent or by itself.
func foreignCA(t require.TestingT, name string, parent *authority, change ...func(*x509.Certificate)) authority {
	key, err := pki.GenerateKey(pki.ECDSAP384)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(7), Subject: pkix.Name{CommonName: name, Organization: []string{"Example"}},
		NotBefore: start.Add(-day), NotAfter: start.Add(365 * day),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	for _, fn := range change {
		fn(template)
	}
	by := authority{template, key}
	if parent != nil {
		by = *parent
	}
	der, err := x509.CreateCertificate(rand.Reader, template, by.cert, key.Public(), by.key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return authority{cert, key}
}

func importOf(t require.TestingT, root authority, issuer ...authority) map[string][]byte {
	if len(issuer) == 0 {
		issuer = []authority{root}
	}
	key, err := pki.EncodeKey(issuer[0].key)
	require.NoError(t, err)
	var certs []*x509.Certificate
	for _, i := range issuer {
		certs = append(certs, i.cert)
	}
	return map[string][]byte{"tls.crt": pki.EncodeCertificates(certs...), "tls.key": key, "ca.crt": pki.EncodeCertificates(root.cert)}
}

// An intermediate and its root follow by the same road, and what follows them
// does too: every root in use verifies every leaf.
func TestImportFollowsByTheSameRoad(t *testing.T) {
	root := foreignCA(t, "Example Root", nil)
	intermediate := foreignCA(t, "Example Issuing CA", &root)
	brought, err := ParseImport(importOf(t, root, intermediate, root))
	require.NoError(t, err)

	s := newScript(t)
	s.Import = &brought
	s.take(StepPrepare)
	s.take("")
	s.promote()
	verified := func() {
		t.Helper()
		a := s.state().Authority(s.Now, s.Domain, s.Reissue)
		leaf := leafOf(t, a, s.Now)
		for _, anchor := range a.Anchors {
			assert.NoError(t, pki.VerifyServing(leaf, a.Chain, anchor, s.Now), anchor.Subject)
		}
		for _, c := range a.Chain {
			assert.NotEqual(t, c.RawSubject, c.RawIssuer, "a root in the chain")
		}
	}
	a := s.state().Authority(s.Now, s.Domain, s.Reissue)
	assert.Equal(t, intermediate.cert, a.Certificate)
	assert.Len(t, a.Chain, 2, "the intermediate, and the root's key signed by generation 1")
	assert.Len(t, a.Anchors, 2)
	verified()

	s.take("")
	s.Now = intermediate.cert.NotAfter.Add(-100 * day)
	s.take(StepRaise)
	s.take(StepRetire)
	d := s.take("")
	require.Len(t, d.Warnings, 1, "it is never replaced unasked")
	assert.Equal(t, WarnEnding, d.Warnings[0].Reason)

	s.ask(api.RotateOverlap, "back to our own")
	s.take(StepPrepare)
	s.promote()
	a = s.state().Authority(s.Now, s.Domain, s.Reissue)
	assert.Len(t, a.Chain, 3, "3 by the intermediate, that, and the root's key signed by generation 1")
	verified()
	s.take("")
}

func TestImportsThatAreNone(t *testing.T) {
	root := foreignCA(t, "Example Root", nil)
	intermediate := foreignCA(t, "Example Issuing CA", &root)
	other := foreignCA(t, "Other Root", nil)
	noCA := foreignCA(t, "No CA", nil, func(c *x509.Certificate) { c.IsCA, c.KeyUsage = false, x509.KeyUsageDigitalSignature })
	ends := foreignCA(t, "Ends", nil, func(c *x509.Certificate) { c.NotAfter = start.Add(time.Hour) })
	later := foreignCA(t, "Later", nil, func(c *x509.Certificate) { c.NotBefore = start.Add(time.Hour) })
	narrow := foreignCA(t, "Narrow", nil, func(c *x509.Certificate) { c.PermittedDNSDomains = []string{"example.com"} })
	good := importOf(t, root, intermediate)
	cases := []struct {
		name string
		data map[string][]byte
		want string
	}{
		{"nothing", nil, "ca.crt: must hold one certificate"},
		{"no root", with(good, map[string][]byte{"ca.crt": nil}), "ca.crt: must hold one certificate"},
		{"two roots", with(good, map[string][]byte{"ca.crt": pki.EncodeCertificates(root.cert, other.cert)}), "ca.crt: must hold one certificate"},
		{"no CA", with(good, map[string][]byte{"tls.crt": nil}), "tls.crt: must hold the CA's certificate"},
		{"no key", with(good, map[string][]byte{"tls.key": nil}), "tls.key: not one private key"},
		{"the key for the certificate", with(good, map[string][]byte{"tls.crt": good["tls.key"], "tls.key": good["tls.crt"]}), "tls.crt: must hold"},
		{"another's key", with(good, map[string][]byte{"tls.key": importOf(t, other)["tls.key"]}), "the private key does not belong"},
		{"another's root", with(good, map[string][]byte{"ca.crt": pki.EncodeCertificates(other.cert)}), "was not signed by Other Root"},
		{"an intermediate for a root", with(good, map[string][]byte{"ca.crt": pki.EncodeCertificates(intermediate.cert)}), "not self-signed"},
		{"a certificate that is no CA", importOf(t, noCA), "is no CA"},
		{"one that ends", importOf(t, ends), "it must outlive the soak"},
		{"one that begins later", importOf(t, later), "is not valid before"},
		{"one for other names", importOf(t, narrow), `do not permit "svc"`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := newScript(t)
			brought, err := ParseImport(c.data)
			if s.ImportErr = err; err == nil {
				s.Import = &brought
			}
			d := s.take("")
			require.Len(t, d.Warnings, 1)
			assert.Equal(t, WarnImport, d.Warnings[0].Reason)
			assert.Contains(t, d.Warnings[0].Message, c.want)
			if key := c.data["tls.key"]; len(key) > 0 {
				assert.NotContains(t, d.Warnings[0].Message, string(key[40:60]))
			}
		})
	}
	for form, key := range map[string][]byte{"SEC 1": sec1(t, root.key)} {
		_, err := ParseImport(with(importOf(t, root), map[string][]byte{"tls.key": key}))
		assert.NoError(t, err, form)
	}
}

// A CA that is elsewhere is followed: nothing is signed until the new one is
// trusted, as the old one signs no more.
func TestRemoteIsFollowed(t *testing.T) {
	root := foreignCA(t, "Remote Root", nil)
	one := foreignCA(t, "Remote Issuing CA 1", &root)
	two := foreignCA(t, "Other Remote Root", nil)
	remote := func(root authority, issuer ...*x509.Certificate) *Candidate {
		c := NewCandidate(OriginRemote, issuer, root.cert, nil)
		return &c
	}
	s := &script{t, observed(nil)}
	s.HasRemote, s.RemoteErr = true, errors.New("no answer")
	assert.Equal(t, ReasonUnreachable, s.take("").Reason)
	s.Remote, s.RemoteErr = remote(root, one.cert), nil
	s.take(StepFresh)
	assert.Empty(t, s.take("").Reason)
	a := s.state().Authority(s.Now, s.Domain, s.Reissue)
	assert.Nil(t, a.Key)
	assert.Equal(t, []*x509.Certificate{one.cert}, a.Chain)

	s.ask(api.RotateOverlap, "please")
	s.take(StepRefuse)
	s.Remote = remote(two, two.cert)
	s.take(StepPrepare)
	assert.Equal(t, ReasonWaitingForTrust, s.take("").Reason)
	s.promote()
	d := s.take("")
	assert.Empty(t, d.Reason)
	a = s.state().Authority(s.Now, s.Domain, s.Reissue)
	assert.Equal(t, []*x509.Certificate{two.cert}, a.Anchors, "nobody could sign a cross")
	assert.Len(t, a.Bundle.Certificates(), 2)

	s.Remote, s.RemoteErr = nil, errors.New("no answer")
	d = s.take("")
	assert.Equal(t, []Warning{{WarnRemote, "no answer"}}, d.Warnings)
	s.HasRemote, s.RemoteErr = false, nil
	s.take(StepPrepare)
	s.promote()
	assert.NotNil(t, s.state().signing().Key, "back to one of our own")
}

// Two issuers under one root share its cross-certificate.
func TestAnotherIssuerUnderTheSameRoot(t *testing.T) {
	root := foreignCA(t, "Example Root", nil)
	s := newScript(t)
	for _, name := range []string{"Issuing CA 1", "Issuing CA 2"} {
		issuing := foreignCA(t, name, &root)
		brought, err := ParseImport(importOf(t, root, issuing))
		require.NoError(t, err)
		s.Import = &brought
		s.take(StepPrepare)
		s.promote()
	}
	a := s.state().Authority(s.Now, s.Domain, s.Reissue)
	require.Len(t, a.Chain, 2)
	assert.Len(t, a.Bundle.Certificates(), 2)
	leaf := leafOf(t, a, s.Now)
	for _, anchor := range a.Bundle.Certificates() {
		assert.NoError(t, pki.VerifyServing(leaf, a.Chain, anchor, s.Now), anchor.Subject)
	}
}

func TestParseRequest(t *testing.T) {
	ask := func(pairs ...string) Request {
		annotations := map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			annotations[pairs[i]] = pairs[i+1]
		}
		return ParseRequest(annotations)
	}
	assert.Equal(t, Request{}, ask())
	assert.Equal(t, Request{}, ask(api.AnnotationRotateMode, "force"), "a mode alone asks for nothing")
	assert.Equal(t, Request{Mode: api.RotateOverlap, Reason: "x"}, ask(api.AnnotationRotate, "x"))
	assert.Equal(t, Request{Mode: api.RotateDistrust, Reason: "x"}, ask(api.AnnotationRotate, "x", api.AnnotationRotateMode, "distrust-now"))
	assert.Equal(t, 3, ask(api.AnnotationPromoteDespite, "3").PromoteDespite)
	assert.Zero(t, ask(api.AnnotationPromoteDespite, "all").PromoteDespite)
	for reason, want := range map[string]string{"two\nlines": "one line", string(make([]byte, 201)): "longer than 200"} {
		r := ask(api.AnnotationRotate, reason)
		assert.ErrorContains(t, r.Wrong, want)
		assert.False(t, r.open(Rotation{}))
	}
}
