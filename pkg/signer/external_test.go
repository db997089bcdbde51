package signer

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/formats"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer/issue"
	"github.com/servingcert/servingcert/test/bounded"
	"github.com/servingcert/servingcert/test/keymaterial"
	"github.com/servingcert/servingcert/test/signertest"
)

// externalScene is a scene with Service web, whose Secret another CA has issued.
func externalScene(t *testing.T) (*scene, *External) {
	web := service("web")
	web.Annotations[api.AnnotationIssuer] = string(api.IssuerExternal)
	theirs := foreignCA(t)
	issued := issueBy(t, theirs, wantedBy(service("web")), epoch)
	secret := managed(issued)
	secret.Labels, secret.OwnerReferences = nil, nil
	secret.Data[api.BundleKey] = theirs.Bundle.PEM()
	w := newScene(testCA(t), secret, web)
	return w, ExternalOf(secret, api.DefaultInstance, nil, w.ca.Bundle, epoch)
}

func (e *External) key() types.NamespacedName {
	return types.NamespacedName{Namespace: e.Namespace, Name: e.Name}
}

// readyOf returns the condition of the first Service after the decision, or nil if it stays.
func (w *scene) readyOf(e *External) (Decision, *state.Condition) {
	s := w.situation()
	s.External = e
	d := Decide(s, OwnershipOf(s))
	for _, status := range StatusUpdateOf(s, d, Outcome{}).Services {
		return d, status.Ready
	}
	return d, nil
}

// readAgain returns what is remembered of the Secret of the scene once the decision to read it again is carried out.
func (w *scene) readAgain(e *External) *External {
	if d, _ := w.readyOf(e); d.Action != ReadLive {
		return e
	}
	return ExternalOf(w.secret, api.DefaultInstance, e, w.ca.Bundle, w.now)
}

func TestExternalSecretIsFollowed(t *testing.T) {
	w, e := externalScene(t)
	leaf := e.Leaf.Fingerprint
	for name, tt := range map[string]struct {
		change  func(w *scene, e *External)
		status  metav1.ConditionStatus
		reason  Reason
		message string
		noLeaf  bool
	}{
		"as it should be": {func(*scene, *External) {}, "True", reasonExternal, string(TrustOwnCA), false},
		"whose it is":     {func(*scene, *External) {}, "True", reasonExternal, `("Example Corporation"), for web.shop.svc`, false},
		"when it ends":    {func(*scene, *External) {}, "True", reasonExternal, "until " + e.Leaf.NotAfter.Format(time.RFC3339), false},
		"control characters": {func(_ *scene, e *External) {
			e.Issuer, e.Leaf.DNSNames = "\x1b[2J", []string{"web.shop.svc", "\x1b[31m"}
		}, "True", reasonExternal, `("\x1b[2J"), for web.shop.svc, \u001b[31m, until`, false},
		"by the cluster's CA": {func(_ *scene, e *External) { e.Trust = TrustBundle }, "True", reasonExternal, "the CA bundle of servingcert", false},
		"by nobody's":         {func(_ *scene, e *External) { e.Trust = TrustUnknown }, "True", reasonExternal, "nor the CA bundle of servingcert verifies it", false},
		"the CA is lost":      {func(w *scene, _ *External) { w.caErr = caError("CALost") }, "True", reasonExternal, "", false},
		"overdue":             {func(w *scene, e *External) { w.now = e.RenewBy() }, "True", reasonOverdue, "should have renewed it by", false},
		"expired":             {func(w *scene, e *External) { w.now = e.Leaf.NotAfter }, "False", reasonExpired, "expired at", false},
		"not valid yet":       {func(_ *scene, e *External) { e.Leaf.NotBefore = epoch.Add(time.Minute) }, "False", reasonNotYetValid, "not valid before", false},
		"of a client":         {func(_ *scene, e *External) { e.Usage = "x" }, "False", reasonWrongUsage, "x", false},
		"missing":             {func(w *scene, e *External) { w.secret = nil; *e = *e.Absent(e.key(), epoch.Add(-externalGrace)) }, "False", reasonMissing, "does not exist", true},
		"other names":         {func(_ *scene, e *External) { e.Leaf.DNSNames = []string{"web.example.com"} }, "False", reasonNamesMissing, "web.shop.svc", false},
		"listed names": {func(w *scene, e *External) {
			e.Leaf.DNSNames = []string{"*.example.com"}
			w.services[0].Annotations[api.AnnotationExtraDNSNames] = "web.example.com"
		}, "True", reasonExternal, "", false},
		"a listed name that is missing": {func(w *scene, _ *External) {
			w.services[0].Annotations[api.AnnotationExtraDNSNames] = "web.example.com"
		}, "False", reasonNamesMissing, "web.example.com", false},
		"a keystore that its issuer does not write": {func(w *scene, _ *External) {
			w.services[0].Annotations[api.AnnotationFormats] = "keystore.p12"
		}, "False", reasonKeyMissing, "data under keystore.p12", false},
		"a keystore that its issuer writes": {func(w *scene, e *External) {
			w.services[0].Annotations[api.AnnotationFormats] = "keystore.p12"
			e.Other = append(e.Other, "keystore.p12")
		}, "True", reasonExternal, "", false},
		"its lifetime is set": {func(w *scene, _ *External) {
			w.services[0].Annotations[api.AnnotationDuration] = "24h"
		}, "False", reasonInvalid, "is about certificates that servingcert issues", true},
	} {
		t.Run(name, func(t *testing.T) {
			scene, external := *w, *e
			facts := *e.SecretFacts
			external.SecretFacts = &facts
			scene.services = []*corev1.Service{w.services[0].DeepCopy()}
			tt.change(&scene, &external)
			s := scene.situation()
			s.External = &external
			d := Decide(s, OwnershipOf(s))
			assert.Equal(t, Nothing, d.Action)
			statuses := StatusUpdateOf(s, d, Outcome{}).Services
			require.Len(t, statuses, 1)
			ready := statuses[0].Ready
			require.NotNil(t, ready)
			assert.Equal(t, tt.status == "False" || tt.reason == reasonOverdue, statuses[0].NotReady != nil, "an event")
			assert.Equal(t, tt.status, ready.Status)
			assert.Equal(t, string(tt.reason), ready.Reason)
			assert.Contains(t, ready.Message, tt.message)
			assert.Equal(t, !tt.noLeaf, strings.Contains(ready.State, leaf), ready.State)
		})
	}
}

// TestFilesOfAnEarlierCertificate, which servingcert wrote into the Secret before another issuer took it over, are reported if
// the Service's pods mount them. What the other issuer has written itself is not decoded.
func TestFilesOfAnEarlierCertificate(t *testing.T) {
	ca := testCA(t)
	before := issueBy(t, ca, wantedBy(service("web")), epoch)
	theirs := issueBy(t, foreignCA(t), wantedBy(service("web")), epoch)
	all := formats.Of(&formats.Keystore, &formats.Combined, &formats.DER)
	ours, err := all.Make(before.Pair(""))
	require.NoError(t, err)
	renewed, err := all.Make(theirs.Pair(""))
	require.NoError(t, err)
	for name, tt := range map[string]struct {
		formats string
		files   map[string][]byte
		want    string
	}{
		"none is requested":                  {"", ours, ""},
		"a keystore":                         {"keystore.p12", ours, "keystore.p12, which its issuer does not write, and which holds another certificate: delete it"},
		"PEM and DER":                        {"combined.pem,der", ours, "cert.der, tls-combined.pem, which"},
		"its issuer writes them":             {"keystore.p12,combined.pem,der", renewed, ""},
		"its issuer writes another keystore": {"keystore.p12", map[string][]byte{formats.KeystoreFile: []byte("x")}, ""},
		"a truststore, which has no pair":    {"truststore.p12", map[string][]byte{"truststore.p12": []byte("x")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			web := service("web", api.AnnotationIssuer, string(api.IssuerExternal))
			if tt.formats != "" {
				web.Annotations[api.AnnotationFormats] = tt.formats
			}
			secret := managed(before, web)
			secret.Annotations[api.AnnotationKeystoreDigest] = formats.SaltedDigest(ours, before.Pair(""))
			secret.Data = maps.Clone(tt.files)
			secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey] = theirs.CertPEM, theirs.KeyPEM
			w := newScene(ca, secret, web)
			_, ready := w.readyOf(ExternalOf(secret, api.DefaultInstance, nil, ca.Bundle, epoch))
			require.NotNil(t, ready)
			if tt.want == "" {
				assert.Equal(t, "True External", string(ready.Status)+" "+ready.Reason, ready.Message)
				return
			}
			assert.Equal(t, "False KeyMissing", string(ready.Status)+" "+ready.Reason)
			assert.Contains(t, ready.Message, "annotation servingcert.dev/formats requests "+tt.want)
		})
	}
}

// TestExternalSecretIsRead when its version is not the one that is remembered, at most once a second.
func TestExternalSecretIsRead(t *testing.T) {
	w, e := externalScene(t)
	d, ready := w.readyOf(nil)
	assert.Equal(t, ReadLive, d.Action)
	assert.Nil(t, ready)
	w.secret.ResourceVersion = "101"
	w.now = epoch.Add(externalInterval / 2)
	d, ready = w.readyOf(e)
	assert.Equal(t, Nothing, d.Action)
	assert.Nil(t, ready)
	assert.Equal(t, epoch.Add(externalInterval), d.NextAt)
	w.now = d.NextAt
	d, _ = w.readyOf(e)
	assert.Equal(t, ReadLive, d.Action)
}

// TestExternalSecretThatChangesAllTheTime is read ever less often, until it has been left alone for a while.
func TestExternalSecretThatChangesAllTheTime(t *testing.T) {
	w, e := externalScene(t)
	for reads := range 100 {
		w.now = e.At.Add(e.Interval)
		e = ExternalOf(w.secret, api.DefaultInstance, e, w.ca.Bundle, w.now)
		assert.LessOrEqual(t, e.Interval, maxExternalInterval)
		assert.True(t, reads < 5 || e.Interval > 30*time.Second, "after %d reads: %s", reads, e.Interval)
	}
	w.secret.ResourceVersion = "101"
	w.now = e.At.Add(e.Interval - 1)
	d, ready := w.readyOf(e)
	assert.Nil(t, ready)
	assert.Equal(t, e.At.Add(e.Interval), d.NextAt)
	e = ExternalOf(w.secret, api.DefaultInstance, e, w.ca.Bundle, e.At.Add(2*e.Interval))
	assert.Equal(t, externalInterval, e.Interval)
}

// TestExternalSecretThatIsReplaced, as by kubectl replace --force, is not reported as missing, and read
// no more often than one that changes.
func TestExternalSecretThatIsReplaced(t *testing.T) {
	w, e := externalScene(t)
	e.Interval = maxExternalInterval
	secret := w.secret
	w.secret, w.now = nil, epoch.Add(time.Second)
	d, ready := w.readyOf(e)
	assert.Nil(t, ready)
	assert.Equal(t, w.now.Add(externalGrace), d.NextAt)
	absent := e.Absent(e.key(), w.now)
	assert.Same(t, absent, absent.Absent(e.key(), w.now.Add(time.Hour)))

	w.now = d.NextAt
	_, ready = w.readyOf(absent)
	assert.Equal(t, string(reasonMissing), ready.Reason)

	w.secret = secret.DeepCopy()
	w.secret.ResourceVersion = "101"
	d, _ = w.readyOf(absent)
	assert.Equal(t, e.At.Add(maxExternalInterval), d.NextAt)
	w.now = d.NextAt
	d, _ = w.readyOf(absent)
	assert.Equal(t, ReadLive, d.Action)
	again := ExternalOf(w.secret, api.DefaultInstance, absent, w.ca.Bundle, w.now)
	assert.Equal(t, maxExternalInterval, again.Interval)
	assert.Zero(t, again.Since)
}

// TestPairsAsPeopleHaveThem are read as servers read them.
func TestPairsAsPeopleHaveThem(t *testing.T) {
	w, _ := externalScene(t)
	cert, key := string(w.secret.Data[corev1.TLSCertKey]), string(w.secret.Data[corev1.TLSPrivateKeyKey])
	const attributes = "Bag Attributes\n    localKeyID: 01 02\nsubject=CN = web\n"
	parameters := string(pem.EncodeToMemory(&pem.Block{Type: "EC PARAMETERS", Bytes: []byte{6, 8, 42, 134, 72, 206, 61, 3, 1, 7}}))
	otherKey := string(issueBy(t, testCA(t), wantedBy(service("web")), epoch).KeyPEM)
	for name, tt := range map[string]struct {
		cert, key string
		defect    Reason
	}{
		"from openssl pkcs12":        {attributes + cert, attributes + key, ""},
		"from openssl ecparam":       {cert, parameters + key, ""},
		"a damaged block first":      {strings.Replace(cert, "M", "!", 1) + cert, key, reasonGarbage},
		"an encrypted key":           {cert, strings.ReplaceAll(key, "PRIVATE KEY", "ENCRYPTED PRIVATE KEY"), reasonGarbage},
		"one file for both":          {cert + key, cert + key, ""},
		"one file, the key first":    {key + cert, key + cert, ""},
		"two keys, the first counts": {cert, key + otherKey, ""},
		"a certificate as the key":   {cert, cert, reasonGarbage},
		"only text":                  {attributes, attributes, reasonGarbage},
	} {
		t.Run(name, func(t *testing.T) {
			w.secret.Data[corev1.TLSCertKey], w.secret.Data[corev1.TLSPrivateKeyKey] = []byte(tt.cert), []byte(tt.key)
			e := ExternalOf(w.secret, api.DefaultInstance, nil, w.ca.Bundle, epoch)
			assert.Equal(t, tt.defect, e.Defect, e.Detail)
		})
	}
}

// TestExternalPairInTwoWrites is not reported, unless it lasts.
func TestExternalPairInTwoWrites(t *testing.T) {
	w, e := externalScene(t)
	other := issueBy(t, foreignCA(t), wantedBy(service("web")), epoch)
	w.secret.Data[corev1.TLSPrivateKeyKey] = other.KeyPEM
	half := ExternalOf(w.secret, api.DefaultInstance, e, w.ca.Bundle, epoch)
	d, ready := w.readyOf(half)
	assert.Nil(t, ready)
	require.Equal(t, epoch.Add(externalGrace), d.NextAt)
	w.now = epoch.Add(externalGrace / 2)
	half = ExternalOf(w.secret, api.DefaultInstance, half, w.ca.Bundle, w.now) // another write
	w.now = d.NextAt
	_, ready = w.readyOf(half)
	require.NotNil(t, ready)
	assert.Equal(t, string(reasonMismatch), ready.Reason)
	assert.NotContains(t, ready.State, `"leaf"`)
	w.secret.Data[corev1.TLSCertKey] = other.CertPEM
	_, ready = w.readyOf(ExternalOf(w.secret, api.DefaultInstance, half, w.ca.Bundle, w.now))
	assert.Equal(t, string(reasonExternal), ready.Reason)
}

// TestFromServingcertToAnotherIssuer: until that has written the Secret, it is kept and renewed.
func TestFromServingcertToAnotherIssuer(t *testing.T) {
	w, _ := externalScene(t)
	web := w.services[0]
	ours := issueBy(t, w.ca, wantedBy(service("web")), epoch)
	w.secret = managed(ours, web)
	d, ready := w.readyOf(nil)
	assert.True(t, d.Retained)
	assert.Equal(t, string(reasonRetained), ready.Reason)
	assert.Contains(t, ready.Message, "until its new issuer writes it")
	w.now = FactsOf(w.secret, api.DefaultInstance).Leaf.RenewAt
	d, _ = w.readyOf(nil)
	assert.Equal(t, Reissue, d.Action)

	theirs := managed(ours, web) // with our label and owner still
	theirs.Data, theirs.ResourceVersion = map[string][]byte{}, "101"
	issued := issueBy(t, foreignCA(t), wantedBy(service("web")), epoch)
	theirs.Data[corev1.TLSCertKey], theirs.Data[corev1.TLSPrivateKeyKey] = issued.CertPEM, issued.KeyPEM
	w.secret = theirs
	d, _ = w.readyOf(nil)
	assert.Equal(t, ReadLive, d.Action)
	assert.True(t, d.External)
	_, ready = w.readyOf(ExternalOf(theirs, api.DefaultInstance, nil, w.ca.Bundle, w.now))
	assert.Equal(t, string(reasonExternal), ready.Reason)
}

// TestReleasedSecretIsReadBeforeACertificateIsIssued for it: once the signer has removed its label, no cache has the Secret
// for a moment, and a certificate that is issued then is not used.
func TestReleasedSecretIsReadBeforeACertificateIsIssued(t *testing.T) {
	w, e := externalScene(t)
	delete(w.services[0].Annotations, api.AnnotationIssuer)
	secret := w.secret
	w.secret = nil
	d, ready := w.readyOf(e)
	assert.Equal(t, ReadLive.String(), d.Action.String())
	assert.Nil(t, ready)
	s := w.situation()
	s.Secret = FactsOf(secret, api.DefaultInstance) // as it was read
	d = Decide(s, OwnershipOf(s))
	assert.Equal(t, Nothing, d.Action)
	assert.Equal(t, reasonConflict, d.Problem.Reason)

	for name, remembered := range map[string]*External{"it is gone, as was read": nil, "it is known to be gone": e.Absent(e.key(), epoch)} {
		d, _ = w.readyOf(remembered)
		assert.Equal(t, Create.String(), d.Action.String(), name)
	}
}

// TestTwoIssuersOfOneSecret: the oldest Service decides.
func TestTwoIssuersOfOneSecret(t *testing.T) {
	w, e := externalScene(t)
	newer := service("api")
	newer.CreationTimestamp = metav1.NewTime(epoch)
	w.services = append(w.services, newer)
	s := w.situation()
	s.External = e
	d := Decide(s, OwnershipOf(s))
	require.Len(t, d.Refused, 1)
	assert.Equal(t, "api", d.Refused[0].Service.Name)
	assert.ErrorContains(t, d.Refused[0].Err, api.AnnotationIssuer)
}

// TestTwoServicesOfOneSecret are judged by themselves.
func TestTwoServicesOfOneSecret(t *testing.T) {
	w, e := externalScene(t)
	w.services = append(w.services, service("api", api.AnnotationSecretName, "web-tls", api.AnnotationIssuer, string(api.IssuerExternal)))
	s := w.situation()
	s.External = e
	reasons := map[string]string{}
	for _, status := range StatusUpdateOf(s, Decide(s, OwnershipOf(s)), Outcome{}).Services {
		reasons[status.Service.Name] = status.Ready.Reason
	}
	assert.Equal(t, map[string]string{"web": string(reasonExternal), "api": string(reasonNamesMissing)}, reasons)
}

// TestManyServicesOfOneWildcard, which servingcert could not issue for: it has more names than a certificate may have.
func TestManyServicesOfOneWildcard(t *testing.T) {
	w, e := externalScene(t)
	e.Leaf.DNSNames = []string{"*.shop.svc"}
	for i := range 60 {
		svc := service(fmt.Sprintf("web-%d", i), api.AnnotationSecretName, "web-tls", api.AnnotationIssuer, string(api.IssuerExternal))
		w.services = append(w.services, svc)
	}
	s := w.situation()
	s.External = e
	d := Decide(s, OwnershipOf(s))
	assert.Empty(t, d.Refused)
	for _, status := range StatusUpdateOf(s, d, Outcome{}).Services {
		assert.Equal(t, string(reasonExternal), status.Ready.Reason, status.Service.Name)
	}
}

// TestAnotherChainMayStillBeValid once a certificate of the chain has expired: the Secret is read again.
func TestAnotherChainMayStillBeValid(t *testing.T) {
	w, e := externalScene(t)
	e.NotAfter = epoch.Add(time.Hour)
	w.now = e.NotAfter
	d, _ := w.readyOf(e)
	assert.Equal(t, ReadLive, d.Action)
	e.At = w.now
	d, ready := w.readyOf(e)
	assert.Equal(t, Nothing, d.Action)
	assert.Equal(t, string(reasonExpired), ready.Reason)
}

// TestExternalFacts of Secrets as other issuers write them.
func TestExternalFacts(t *testing.T) {
	w, _ := externalScene(t)
	w.secret.Type = corev1.SecretTypeOpaque
	delete(w.secret.Data, api.BundleKey)
	e := ExternalOf(w.secret, api.DefaultInstance, nil, w.ca.Bundle, epoch)
	assert.Empty(t, e.Defect)
	assert.Equal(t, TrustUnknown, e.Trust)
	w.secret.Data[api.BundleKey] = w.secret.Data[corev1.TLSCertKey] // a copy, and no root
	assert.Equal(t, TrustUnknown, ExternalOf(w.secret, api.DefaultInstance, nil, w.ca.Bundle, epoch).Trust)

	many := []*x509.Certificate{}
	for range 30 {
		many = append(many, foreignCA(t).Certificate)
		many[len(many)-1].RawSubject = []byte("another name")
	}
	root, err := pki.ParseCertificates(w.secret.Data[api.BundleKey])
	require.NoError(t, err)
	bundle := pki.NewBundle(append(many, root...)...)
	assert.Equal(t, TrustBundle, trustOf(root[0], nil, nil, bundle.Certificates(), epoch).Trust, "the root is behind many others")

	for lifetime, before := range map[time.Duration]time.Duration{90 * day: 9 * day, 5 * day: day, time.Hour: 15 * time.Minute} {
		e.Leaf.NotBefore, e.Leaf.NotAfter, e.NotAfter = epoch, epoch.Add(lifetime), epoch.Add(lifetime)
		assert.Equal(t, e.NotAfter.Add(-before), e.RenewBy())
	}
}

// TestWhatIsKeptOfASecretOfAnotherIssuer is at most what docs/limits.md says, whatever the Secret has.
func TestWhatIsKeptOfASecretOfAnotherIssuer(t *testing.T) {
	key, err := pki.GenerateKey(pki.ECDSAP256)
	require.NoError(t, err)
	keyPEM, err := pki.EncodeKey(key)
	require.NoError(t, err)
	long := strings.Repeat("x", 253)
	for name, tt := range map[string]struct{ names, ips, length int }{
		"long names":          {ofAnotherIssuer.maxNames, 0, 62},
		"names and addresses": {ofAnotherIssuer.maxNames, ofAnotherIssuer.maxNames, 42},
		"many small ones":     {ofAnotherIssuer.maxNames + 1, ofAnotherIssuer.maxNames, 30},
	} {
		t.Run(name, func(t *testing.T) {
			template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: epoch, NotAfter: epoch.Add(day), Issuer: pkix.Name{CommonName: long}}
			for i := range tt.names {
				name := fmt.Sprintf("%04d.", i)
				template.DNSNames = append(template.DNSNames, name+strings.Repeat("x", tt.length-len(name)))
			}
			for i := range tt.ips {
				template.IPAddresses = append(template.IPAddresses, net.ParseIP(fmt.Sprintf("fd00::%x", i+1)))
			}
			der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
			require.NoError(t, err)
			require.LessOrEqual(t, len(der), pki.MaxCertificate)
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: long, Annotations: map[string]string{}}, Data: map[string][]byte{
				corev1.TLSCertKey: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), corev1.TLSPrivateKeyKey: keyPEM,
			}}
			for i := range 1000 {
				secret.Data[fmt.Sprintf("%04d", i)+long[4:]] = nil
				secret.OwnerReferences = append(secret.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "Service", Name: long, UID: types.UID(fmt.Sprint(i))})
			}
			for _, key := range secretAnnotations {
				secret.Annotations[key] = long + long
			}
			assert.Equal(t, tt.names > ofAnotherIssuer.maxNames, ExternalOf(secret, "servingcert", nil, pki.Bundle{}, epoch).Defect != "")
			kept := bounded.Kept(func() *External { return ExternalOf(secret.DeepCopy(), "servingcert", nil, pki.Bundle{}, epoch) })
			assert.LessOrEqual(t, kept, uint64(160<<10))
		})
	}
}

// TestWhatAnotherIssuerWroteIsLeft, whatever becomes of the Service, although the Secret has the
// signer's label and owner still, and in whatever form its key is.
func TestWhatAnotherIssuerWroteIsLeft(t *testing.T) {
	ca := testCA(t)
	issued := issueBy(t, foreignCA(t), wantedBy(service("web")), epoch)
	key, err := pki.ParseKey(issued.KeyPEM)
	require.NoError(t, err)
	der, err := x509.MarshalECPrivateKey(key.(*ecdsa.PrivateKey))
	require.NoError(t, err)
	other := issueBy(t, ca, wantedBy(service("web")), epoch)
	for form, key := range map[string][]byte{
		"PKCS #8": issued.KeyPEM, "SEC 1": pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), "another key": other.KeyPEM, "no key": nil, "text before the certificate": issued.KeyPEM, "the key before the certificate": issued.KeyPEM, "many names": issued.KeyPEM,
		"a root that Go does not read": issued.KeyPEM, "a leaf that Go does not read": issued.KeyPEM,
	} {
		for name, change := range map[string]func(w *scene){
			"an invalid annotation": func(w *scene) { w.services[0].Annotations[api.AnnotationDuration] = "a day" },
			"another Secret":        func(w *scene) { w.services[0].Annotations[api.AnnotationSecretName] = "other-tls" },
			"no request": func(w *scene) {
				delete(w.services[0].Annotations, api.AnnotationSecretName)
				delete(w.services[0].Annotations, api.AnnotationIssuer)
			},
			"no label": func(w *scene) { w.notOptedIn = true },
			"refused beside a Service of the signer": func(w *scene) {
				w.services[0].Annotations[api.AnnotationDuration] = "a day"
				w.services = append(w.services, service("api"))
			},
		} {
			t.Run(form+", "+name, func(t *testing.T) {
				web := service("web", api.AnnotationIssuer, string(api.IssuerExternal))
				web.Status.Conditions = condition(true, reasonExternal, "", state.Ready{Secret: "web-tls"}).Both()
				secret := managed(other, web, service("api"))
				secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey] = issued.CertPEM, key
				switch form {
				case "a root that Go does not read":
					secret.Data[corev1.TLSCertKey] = append(slices.Clone(issued.CertPEM), unread(t)...)
				case "a leaf that Go does not read":
					secret.Data[corev1.TLSCertKey] = unread(t)
				case "text before the certificate":
					secret.Data[corev1.TLSCertKey] = append([]byte("Bag Attributes\n"), issued.CertPEM...)
				case "the key before the certificate":
					secret.Data[corev1.TLSCertKey] = append(slices.Clone(issued.KeyPEM), issued.CertPEM...)
				case "many names":
					secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey] = keymaterial.SelfSigned("web.shop.svc", api.MaxNames+1)
				}
				w := newScene(ca, secret, web)
				change(w)
				s := w.situation()
				assert.Equal(t, Nothing.String(), Decide(s, OwnershipOf(s)).Action.String())
			})
		}
	}
}

// unread returns a certificate with a negative serial number, as some roots have.
func unread(t *testing.T) []byte {
	t.Helper()
	ca := foreignCA(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(0x7777777777), NotBefore: epoch, NotAfter: epoch.Add(day)}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.Certificate, ca.Key.Public(), ca.Key)
	require.NoError(t, err)
	der = bytes.Replace(der, []byte{2, 5, 0x77, 0x77}, []byte{2, 5, 0x87, 0x77}, 1)
	_, err = x509.ParseCertificate(der)
	require.Error(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// TestWhoWroteTheCertificate is what tells whether the Secret is the signer's, and not who signed it.
func TestWhoWroteTheCertificate(t *testing.T) {
	ca, web := testCA(t), service("web", api.AnnotationIssuer, string(api.IssuerExternal))
	ours, fromTheSameCA := issueBy(t, ca, wantedBy(service("web")), epoch), issueBy(t, ca, wantedBy(service("web")), epoch)
	fromAnotherCluster := issueBy(t, testCA(t), wantedBy(service("web")), epoch)
	for name, tt := range map[string]struct {
		written issue.Issued // by the signer
		now     issue.Issued // what the Secret has
		lost    bool         // the CA
		want    string       // in the situation of an external Service
	}{
		"the signer's":                      {ours, ours, false, "retained"},
		"the signer's, the CA is lost":      {ours, ours, true, "retained"},
		"another issuer with the same CA":   {ours, fromTheSameCA, false, "external"},
		"servingcert of another cluster":    {ours, fromAnotherCluster, false, "external"},
		"another issuer, the CA is lost":    {ours, fromAnotherCluster, true, "external"},
		"the signer's, of a CA that is not": {fromAnotherCluster, fromAnotherCluster, false, "retained"},
	} {
		t.Run(name, func(t *testing.T) {
			secret := managed(tt.written, web)
			secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey] = tt.now.CertPEM, tt.now.KeyPEM
			w := newScene(ca, secret, web)
			if tt.lost {
				w.caErr = caError("CALost")
			}
			s := w.situation()
			o := OwnershipOf(s)
			assert.Equal(t, tt.want == "external", o.External)
			assert.Equal(t, tt.want == "retained", o.Retained)
			assert.False(t, o.External && Decide(s, o).Issues())
		})
	}

	// A CA that was imported has a name of its own. What it signed is replaced once it is distrusted.
	old := foreignCA(t)
	moved := service("web", api.AnnotationSecretName, "other-tls")
	_, d := newScene(ca, managed(issueBy(t, old, wantedBy(service("web")), epoch), moved), moved).decide()
	assert.Equal(t, Reissue, d.Action)
}

// TestSecretThatAnotherIssuerHasWritten loses the signer's marks, so that Kubernetes does not delete it
// with the Service, and is not overwritten.
func TestSecretThatAnotherIssuerHasWritten(t *testing.T) {
	ca, theirs := testCA(t), foreignCA(t)
	external := []string{api.AnnotationIssuer, string(api.IssuerExternal)}
	for name, tt := range map[string]struct {
		annotations []string // of the Service
		change      func(*corev1.Secret)
		release     bool
		action      Action
	}{
		"followed":                              {external, func(*corev1.Secret) {}, true, Nothing},
		"followed, of another signer":           {external, func(s *corev1.Secret) { s.Labels = nil }, false, Nothing},
		"followed, released before":             {external, func(s *corev1.Secret) { s.Labels, s.OwnerReferences = nil, nil }, false, Nothing},
		"no Service requests it any more":       {[]string{api.AnnotationSecretName, "other-tls"}, func(*corev1.Secret) {}, false, Nothing},
		"requested, and cert-manager writes it": {nil, func(s *corev1.Secret) { s.Annotations[api.AnnotationCertificateName] = "web" }, false, Nothing},
		"requested, by an unknown writer":       {nil, func(*corev1.Secret) {}, false, Reissue},
		"requested, never written by cert-manager since": {nil, func(s *corev1.Secret) {
			s.Annotations[api.AnnotationCertificateName] = "web"
			s.Annotations[api.AnnotationIssuedLeaf] = FactsOf(s, api.DefaultInstance).Leaf.Fingerprint
		}, false, Reissue},
	} {
		t.Run(name, func(t *testing.T) {
			web := service("web", tt.annotations...)
			secret := managed(issueBy(t, ca, wantedBy(service("web")), epoch), web)
			their := issueBy(t, theirs, wantedBy(service("web")), epoch)
			secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey] = their.CertPEM, their.KeyPEM
			secret.OwnerReferences = append(secret.OwnerReferences, metav1.OwnerReference{APIVersion: "cert-manager.io/v1", Kind: "Certificate", Name: "web", UID: "c"})
			tt.change(secret)
			w := newScene(ca, secret, web)
			d, _ := w.readyOf(ExternalOf(secret, api.DefaultInstance, nil, ca.Bundle, epoch))
			assert.Equal(t, tt.action, d.Action)
			require.Equal(t, tt.release, d.Release != nil)
			if tt.release {
				metadata := d.Release.Release()["metadata"].(map[string]any)
				assert.Equal(t, secret.OwnerReferences[len(secret.OwnerReferences)-1:], metadata["ownerReferences"], "those of others stay")
				assert.Equal(t, secret.ResourceVersion, metadata["resourceVersion"])
			}
		})
	}

	// Annotations alone, on a certificate of this CA, are repaired.
	web := service("web")
	forged := managed(issueBy(t, ca, wantedBy(web), epoch), web)
	forged.Annotations[api.AnnotationIssuedLeaf], forged.Annotations[api.AnnotationCertificateName] = "x", "x"
	_, d := newScene(ca, forged, web).decide()
	assert.Equal(t, Repair, d.Action)

	// The message says what to do.
	secret := managed(issueBy(t, theirs, wantedBy(service("web")), epoch))
	secret.Labels, secret.OwnerReferences, secret.Annotations = nil, nil, map[string]string{api.AnnotationCertificateName: "web"}
	_, ready := newScene(ca, secret, service("web")).readyOf(nil)
	require.NotNil(t, ready)
	assert.Equal(t, string(reasonConflict), ready.Reason)
	assert.Contains(t, ready.Message, `Certificate "web" writes it`)
	assert.Contains(t, ready.Message, "servingcert.dev/issuer: external")
}

// foreignCA returns a CA with another name than those of servingcert.
func foreignCA(t *testing.T) *pki.Authority {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Example Corporation"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotBefore: epoch.Add(-day), NotAfter: epoch.Add(1000 * day),
	}
	root := signertest.Certify(t, template, template, key.Public(), key)
	return &pki.Authority{
		Issuer: pki.Issuer{Certificate: root}, Key: key, Bundle: pki.NewBundle(root), Anchors: []*x509.Certificate{root}, SignUntil: epoch.Add(1000 * day),
	}
}
