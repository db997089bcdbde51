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

// authority is a foreign CA.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// foreignCA creates a foreign CA, signed by parent or by itself, with a key of another
// algorithm than ours.
func foreignCA(t require.TestingT, name string, parent *authority, change ...func(*x509.Certificate)) authority {
	return foreignCAWith(t, pki.ECDSAP384, name, parent, change...)
}

// foreignCAWith is foreignCA with a key of the algorithm.
func foreignCAWith(t require.TestingT, algorithm pki.KeyAlgorithm, name string, parent *authority, change ...func(*x509.Certificate)) authority {
	key, err := pki.GenerateKey(algorithm)
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

// An imported intermediate with its root goes through the same steps, and so does its
// successor: every root in use verifies every leaf.
func TestImportFollowsByTheSameRoad(t *testing.T) {
	root := foreignCA(t, "Example Root", nil)
	intermediate := foreignCA(t, "Example Issuing CA", &root)
	imported, err := ParseImport(importOf(t, root, intermediate, root))
	require.NoError(t, err)

	s := newScript(t)
	s.Import = &imported
	s.take(StepPrepare)
	s.take("")
	s.promote()
	verified := func() {
		t.Helper()
		a := s.state().authority(s.Situation)
		leaf := leafOf(t, a, s.Now)
		for _, anchor := range a.Anchors {
			assert.NoError(t, pki.VerifyServing(leaf, a.Chain, anchor, s.Now), anchor.Subject)
		}
		for _, c := range a.Chain {
			assert.NotEqual(t, c.RawSubject, c.RawIssuer, "a root in the chain")
		}
	}
	a := s.state().authority(s.Situation)
	assert.Equal(t, intermediate.cert, a.Certificate)
	assert.Len(t, a.Chain, 2, "the intermediate, and the root's key signed by generation 1")
	assert.Len(t, a.Anchors, 2)
	verified()

	assert.Empty(t, s.take("").Warnings)
	s.Now = intermediate.cert.NotAfter.Add(-100 * day)
	s.take(StepRaise)
	s.take(StepRetire)
	d := s.take("")
	require.Len(t, d.Warnings, 1, "it is never replaced unasked")
	assert.Equal(t, api.CAEnding, d.Warnings[0].Reason)

	s.ask(api.RotateOverlap, "back to our own")
	s.take(StepPrepare)
	s.promote()
	a = s.state().authority(s.Situation)
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
		{"no key", with(good, map[string][]byte{"tls.key": nil}), "tls.key: must hold one unencrypted private key"},
		{"the key for the certificate", with(good, map[string][]byte{"tls.crt": good["tls.key"], "tls.key": good["tls.crt"]}), "tls.crt: must hold"},
		{"another's key", with(good, map[string][]byte{"tls.key": importOf(t, other)["tls.key"]}), "the private key does not belong"},
		{"another's root", with(good, map[string][]byte{"ca.crt": pki.EncodeCertificates(other.cert)}), "was not signed by Other Root"},
		{"an intermediate for a root", with(good, map[string][]byte{"ca.crt": pki.EncodeCertificates(intermediate.cert)}), "not self-signed"},
		{"a certificate that is no CA", importOf(t, noCA), "is not a CA"},
		{"one that ends", importOf(t, ends), "must be valid for at least an hour longer than the soak"},
		{"one that begins later", importOf(t, later), "is not valid before"},
		{"a cross-certificate that is none", with(good, map[string][]byte{"cross.crt": []byte("none")}), "cross.crt: must hold one certificate"},
		{"a root as the cross-certificate", with(good, map[string][]byte{"cross.crt": good["ca.crt"]}), "cross.crt: the certificate is self-signed"},
		{"another's cross-certificate", with(good, map[string][]byte{"cross.crt": pki.EncodeCertificates(crossOf(t, other, root))}), "cross.crt: the key of the certificate is not the key of"},
		{"one for other names", importOf(t, narrow), `do not permit "svc"`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := newScript(t)
			imported, err := ParseImport(c.data)
			if s.ImportErr = err; err == nil {
				s.Import = &imported
			}
			d := s.take("")
			require.Len(t, d.Warnings, 1)
			assert.Equal(t, api.CAImportInvalid, d.Warnings[0].Reason)
			assert.Contains(t, d.Warnings[0].Message, c.want)
			if key := c.data["tls.key"]; len(key) > 0 {
				assert.NotContains(t, d.Warnings[0].Message, string(key[40:60]))
			}
		})
	}
	_, err := ParseImport(with(good, map[string][]byte{"tls.crt": pki.EncodeCertificates(intermediate.cert, root.cert)}))
	require.NoError(t, err)
	for form, key := range map[string][]byte{"SEC 1": sec1(t, root.key)} {
		_, err := ParseImport(with(importOf(t, root), map[string][]byte{"tls.key": key}))
		assert.NoError(t, err, form)
	}
}

// crossOf returns a CA's key and subject signed by another, whatever its name.
func crossOf(t require.TestingT, ca, by authority) *x509.Certificate {
	template := *ca.cert
	template.AuthorityKeyId = by.cert.SubjectKeyId
	der, err := x509.CreateCertificate(rand.Reader, &template, by.cert, ca.cert.PublicKey, by.key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return cert
}

// keyed sets the key identifier, which distinguishes two CAs of the same name.
func keyed(id byte) func(*x509.Certificate) {
	return func(c *x509.Certificate) { c.SubjectKeyId = []byte{id} }
}

// As service-ca rotates: the next CA has the name of the previous one, which certifies its
// key. A client that holds only the previous root verifies the served certificates, before
// and after the imported CA is succeeded by one made here.
func TestImportWithTheCrossCertificateOfTheCABefore(t *testing.T) {
	before, now := foreignCA(t, "Signer", nil, keyed(1)), foreignCA(t, "Signer", nil, keyed(2))
	data := with(importOf(t, now), map[string][]byte{"cross.crt": pki.EncodeCertificates(crossOf(t, now, before))})
	imported, err := ParseImport(data)
	require.NoError(t, err)
	s := &script{t, situation(nil)}
	s.Import = &imported
	s.take(StepFresh)
	verified := func(chain int, roots ...*x509.Certificate) {
		t.Helper()
		a := s.state().authority(s.Situation)
		require.Len(t, a.Chain, chain)
		leaf := leafOf(t, a, s.Now)
		for _, root := range append(roots, before.cert) {
			assert.NoError(t, pki.VerifyServing(leaf, a.Chain, root, s.Now), root.Subject)
		}
	}
	verified(1, now.cert)
	s.ask(api.RotateOverlap, "ours")
	s.take(StepPrepare)
	s.promote()
	verified(2, now.cert, s.state().signing().Root)
	s.Now = now.cert.NotAfter.Add(-time.Minute)
	s.take(StepRaise)
	assert.Empty(t, s.state().authority(s.Situation).Chain, "as they end")

	second := newScript(t)
	second.Import = &imported
	second.take(StepPrepare)
	second.promote()
	a := second.state().authority(second.Situation)
	require.Len(t, a.Chain, 1)
	assert.Equal(t, second.state().Generations[0].Root.RawSubject, a.Chain[0].RawIssuer, "behind another generation it is that one's")
}

// A remote CA is followed, and left.
func TestRemoteIsFollowed(t *testing.T) {
	root := foreignCA(t, "Remote Root", nil)
	one := foreignCA(t, "Remote Issuing CA 1", &root)
	two := foreignCA(t, "Other Remote Root", nil)
	remote := func(root authority, issuer ...*x509.Certificate) *Candidate {
		c := NewCandidate(OriginRemote, issuer, root.cert, nil)
		return &c
	}
	s := &script{t, situation(nil)}
	s.HasRemote, s.RemoteErr = true, errors.New("no answer")
	assert.Equal(t, api.CAUnreachable, s.take("").Problem.Reason)
	s.Remote, s.RemoteErr = remote(root, one.cert), nil
	s.take(StepFresh)
	assert.Empty(t, s.take("").Problem.Reason)
	a := s.state().authority(s.Situation)
	assert.Nil(t, a.Key)
	assert.Equal(t, []*x509.Certificate{one.cert}, a.Chain)

	s.ask(api.RotateOverlap, "please")
	s.take(StepRefuse)
	s.ask(api.RotateDistrust, "stolen")
	s.take(StepRefuse)
	assert.Contains(t, s.state().Rotation.Refused, "replace it there", "with the same key it would distrust nothing")
	s.Remote = remote(two, two.cert)
	s.take(StepPrepare)
	s.promote()
	d := s.take("")
	assert.Empty(t, d.Problem.Reason)
	a = s.state().authority(s.Situation)
	assert.Equal(t, []*x509.Certificate{two.cert}, a.Anchors, "nobody could sign a cross")
	assert.Len(t, a.Bundle.Certificates(), 2)

	s.Remote = at(foreignCA(t, "Other Remote Root", nil))
	d = s.take("")
	require.Len(t, d.Warnings, 1)
	assert.Contains(t, d.Warnings[0].Message, "the remote CA cannot be used: its root is not the root of generation 2 and has the same subject")
	assert.Empty(t, s.state().Import, "it was no import")

	s.Remote, s.RemoteErr = nil, errors.New("no answer")
	d = s.take("")
	assert.Equal(t, []api.CAMessage{{Reason: api.CARemoteInvalid, Message: "no answer"}}, d.Warnings)
	s.HasRemote, s.RemoteErr = false, nil
	s.take(StepPrepare)
	s.promote()
	assert.NotNil(t, s.state().signing().Key, "back to one of our own")
}

// A CA that was imported and then distrusted stays out, even if the Secret that recorded the import is lost. One that was
// not imported yet is.
func TestADistrustedImportStaysOut(t *testing.T) {
	for what, data := range map[string]map[string][]byte{"lost": nil, "corrupt": {"state.json": []byte("{}")}} {
		t.Run(what, func(t *testing.T) {
			stolen := foreignCA(t, "Stolen", nil)
			imported, err := ParseImport(importOf(t, stolen))
			require.NoError(t, err)
			s := newScript(t)
			s.Import = &imported
			s.take(StepPrepare)
			s.promote()
			s.ask(api.RotateDistrust, "stolen")
			s.take(StepFresh)
			s.published()

			s.Secret = data
			s.ask(api.RotateReplaceLost, "disk")
			s.take(StepFresh)
			s.published()
			s.take("")
			assert.NotContains(t, s.state().Bundle(s.Now).Certificates(), stolen.cert)

			another, err := ParseImport(importOf(t, foreignCA(t, "Another", nil)))
			require.NoError(t, err)
			s.Secret, s.Import = data, &another
			s.ask(api.RotateReplaceLost, "disk again")
			s.take(StepFresh)
			s.take(StepPrepare)
			assert.Equal(t, OriginImport, s.state().Newest().Origin)
		})
	}
}

// Two issuers under one root share its cross-certificate.
func TestAnotherIssuerUnderTheSameRoot(t *testing.T) {
	root := foreignCA(t, "Example Root", nil)
	s := newScript(t)
	for _, name := range []string{"Issuing CA 1", "Issuing CA 2"} {
		issuing := foreignCA(t, name, &root)
		imported, err := ParseImport(importOf(t, root, issuing))
		require.NoError(t, err)
		s.Import = &imported
		s.take(StepPrepare)
		s.promote()
	}
	a := s.state().authority(s.Situation)
	require.Len(t, a.Chain, 2)
	assert.Len(t, a.Bundle.Certificates(), 2)
	leaf := leafOf(t, a, s.Now)
	for _, anchor := range a.Bundle.Certificates() {
		assert.NoError(t, pki.VerifyServing(leaf, a.Chain, anchor, s.Now), anchor.Subject)
	}
}
