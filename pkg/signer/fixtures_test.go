package signer

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/sha1" // RFC 5280, 4.2.1.2, method 1
	"crypto/x509"
	"encoding/asn1"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net"
	"slices"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

// epoch is the time of most tests. It is no whole second, as no clock's is.
var epoch = time.Date(2026, 3, 1, 12, 0, 0, 250e6, time.UTC)

const day = 24 * time.Hour

// clusterNames is what a CA permits by default.
var clusterNames = pki.Constraints{PermittedDNS: []string{"svc", "cluster.local"}}

// newCA returns the Authority of a CA of one generation.
func newCA(t require.TestingT, constraints pki.Constraints, notBefore, notAfter time.Time) *pki.Authority {
	key, err := pki.GenerateKey(pki.ECDSAP256)
	require.NoError(t, err)
	root, err := pki.NewRoot(key, 1, constraints, notBefore, notAfter)
	require.NoError(t, err)
	return &pki.Authority{Issuer: pki.Issuer{Certificate: root}, Key: key, Bundle: pki.NewBundle(root), Anchors: []*x509.Certificate{root}, SignUntil: root.NotAfter}
}

func testCA(t require.TestingT) *pki.Authority {
	return newCA(t, clusterNames, epoch.Add(-day), epoch.Add(1000*day))
}

// forge returns a CA with the subject and the key id of the given one, and
// another key.
func forge(t require.TestingT, ca *pki.Authority) *pki.Authority {
	key, err := pki.GenerateKey(pki.ECDSAP256)
	require.NoError(t, err)
	template := *ca.Certificate
	template.PublicKey = key.Public()
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, key.Public(), key)
	require.NoError(t, err)
	root, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	require.Equal(t, ca.Certificate.SubjectKeyId, root.SubjectKeyId)
	return &pki.Authority{Issuer: pki.Issuer{Certificate: root}, Key: key, Bundle: pki.NewBundle(root), Anchors: []*x509.Certificate{root}, SignUntil: root.NotAfter}
}

// plainSign signs with crypto/x509 alone what the request asks for, changed by
// the given functions: a CA that does as it likes.
func plainSign(change ...func(template *x509.Certificate, ca *pki.Authority)) Sign {
	return func(_ context.Context, ca *pki.Authority, request SigningRequest) (*x509.Certificate, error) {
		block, _ := pem.Decode(request.CSR)
		csr, err := x509.ParseCertificateRequest(block.Bytes)
		if err != nil {
			return nil, err
		}
		serial, err := pki.NewSerial()
		if err != nil {
			return nil, err
		}
		usage := x509.KeyUsageDigitalSignature
		if request.KeyAlgorithm.IsRSA() {
			usage |= x509.KeyUsageKeyEncipherment
		}
		template := &x509.Certificate{
			SerialNumber:          serial,
			PublicKey:             csr.PublicKey,
			DNSNames:              slices.Clone(request.DNSNames),
			NotBefore:             request.NotBefore,
			NotAfter:              request.NotAfter,
			KeyUsage:              usage,
			ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
			BasicConstraintsValid: true,
		}
		for _, ip := range request.IPs {
			template.IPAddresses = append(template.IPAddresses, net.IP(ip.AsSlice()))
		}
		signing := *ca
		for _, f := range change {
			f(template, &signing)
		}
		if template.SubjectKeyId == nil {
			template.SubjectKeyId = sha1KeyID(template.PublicKey)
		}
		der, err := x509.CreateCertificate(rand.Reader, template, signing.Certificate, template.PublicKey, signing.Key)
		if err != nil {
			return nil, err
		}
		return x509.ParseCertificate(der)
	}
}

// sha1KeyID is the key identifier that most CAs use, cfssl among them.
func sha1KeyID(pub crypto.PublicKey) []byte {
	der, err := x509.MarshalPKIXPublicKey(pub)
	if err != nil {
		return nil
	}
	var info struct {
		Algorithm asn1.RawValue
		Key       asn1.BitString
	}
	if _, err := asn1.Unmarshal(der, &info); err != nil {
		return nil
	}
	sum := sha1.Sum(info.Key.Bytes)
	return sum[:]
}

// issue makes the pair that ca gives at a time.
func issue(t require.TestingT, ca *pki.Authority, wanted api.Wanted, at time.Time) Issued {
	issued, err := Issue(context.Background(), plainSign(), ca, wanted, at)
	require.NoError(t, err)
	return issued
}

func wantedBy(services ...*corev1.Service) api.Wanted {
	wanted, _, _ := api.Merge(services, api.DefaultLimits())
	return wanted
}

// service returns a Service of namespace shop that asks for Secret web-tls,
// unless annotations (key, value, …) say otherwise; "-" takes one away.
func service(name string, annotations ...string) *corev1.Service {
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, UID: types.UID("uid-of-" + name), ResourceVersion: "1",
			CreationTimestamp: metav1.NewTime(epoch.Add(-10 * day)),
			Annotations:       map[string]string{api.AnnotationSecretName: "web-tls"},
		},
		Spec: corev1.ServiceSpec{ClusterIP: "10.0.0.1", ClusterIPs: []string{"10.0.0.1"}, Selector: map[string]string{"app": name}},
	}
	for pair := range slices.Chunk(annotations, 2) {
		if pair[1] == "-" {
			delete(svc.Annotations, pair[0])
		} else {
			svc.Annotations[pair[0]] = pair[1]
		}
	}
	return svc
}

// managed returns Secret web-tls as the signer makes it for the owners.
func managed(issued Issued, owners ...*corev1.Service) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "web-tls", UID: "uid-of-secret", ResourceVersion: "100",
			Labels:          map[string]string{api.LabelManagedBy: api.DefaultInstance},
			OwnerReferences: ownerReferences(nil, owners),
		},
		Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{corev1.TLSCertKey: issued.CertPEM, corev1.TLSPrivateKeyKey: issued.KeyPEM},
	}
}

// scene is a namespace as the API server has it, from which a Situation follows
// as the controller gathers it.
type scene struct {
	now         time.Time
	notOptedIn  bool
	terminating bool
	services    []*corev1.Service
	secret      *corev1.Secret
	ca          *pki.Authority
	caErr       error
	limits      api.Limits
	former      []string // cluster domains
	openShift   bool
}

func newScene(ca *pki.Authority, secret *corev1.Secret, services ...*corev1.Service) *scene {
	return &scene{now: epoch, services: services, secret: secret, ca: ca, limits: api.DefaultLimits()}
}

func (w *scene) situation() Situation {
	s := Situation{
		Now: w.now, Key: types.NamespacedName{Namespace: "shop", Name: "web-tls"},
		OptedIn: !w.notOptedIn, Terminating: w.terminating,
		Limits: w.limits, Authority: w.ca, AuthorityErr: w.caErr,
		Kept: map[types.UID][]string{},
	}
	s.Limits.FormerDomains, s.OpenShift = w.former, w.openShift
	if w.caErr != nil {
		s.Authority = nil
	}
	switch {
	case w.secret == nil:
	case w.secret.Labels[api.LabelManagedBy] == api.DefaultInstance:
		s.Secret = FactsOf(w.secret, api.DefaultInstance)
	default:
		s.Obstacle = &w.secret.ObjectMeta
	}
	for _, svc := range w.services {
		if w.openShift {
			svc = api.Translate(svc)
		}
		switch name, asks := api.Wants(svc); {
		case svc.DeletionTimestamp != nil:
		case asks && name == s.Key.Name:
			s.Asking = append(s.Asking, svc)
		case s.Secret != nil && s.Secret.OwnedBy(svc.UID):
			s.Owning = append(s.Owning, svc)
		}
	}
	return s
}

// decide decides, and looks where that is the decision, as Reconcile does.
func (w *scene) decide() (Situation, Decision) {
	s := w.situation()
	d := Decide(s)
	if d.Action == Look {
		s.Secret, s.Obstacle = FactsOf(w.secret, api.DefaultInstance), nil
		d = Decide(s)
	}
	return s, d
}

// apply does to the Secret what the decision says, in the model of the API
// server that the scene is.
func (w *scene) apply(t require.TestingT, s Situation, d Decision, sign Sign) {
	var issued *Issued
	if d.Action == Create || d.Action == Reissue || d.Action == Replace {
		i, err := Issue(context.Background(), sign, s.Authority, d.Wanted, w.now)
		require.NoError(t, err)
		issued = &i
	}
	w.write(t, s, d, issued)
}

// write does it with what was issued.
func (w *scene) write(t require.TestingT, s Situation, d Decision, issued *Issued) {
	switch d.Action {
	case Create:
		require.Nil(t, w.secret, "the API server refuses to create what exists")
		w.secret = managed(*issued)
		w.secret.OwnerReferences = d.Owners
		w.annotate(s, d, issued)
	case Replace:
		old := w.secret
		w.secret = managed(*issued)
		w.secret.OwnerReferences, w.secret.Annotations = d.Owners, old.Annotations
		maps.Copy(w.secret.Labels, old.Labels)
		w.secret.Labels[api.LabelManagedBy] = api.DefaultInstance
		w.annotate(s, d, issued)
	case Reissue, Repair:
		w.secret = patched(t, w.secret, secretPatch(s.Secret, d.Owners, api.DefaultInstance, secretAnnotations(s, d, issued), issued))
	}
}

func (w *scene) annotate(s Situation, d Decision, issued *Issued) {
	for key, value := range secretAnnotations(s, d, issued) {
		if text, ok := value.(string); ok {
			metav1.SetMetaDataAnnotation(&w.secret.ObjectMeta, key, text)
		} else {
			delete(w.secret.Annotations, key)
		}
	}
}

// patched applies a merge patch (RFC 7386) as the API server does: on the object
// with the UID and resource version that the patch names, or not at all.
func patched(t require.TestingT, secret *corev1.Secret, patch map[string]any) *corev1.Secret {
	document, err := json.Marshal(secret)
	require.NoError(t, err)
	body, err := json.Marshal(patch)
	require.NoError(t, err)
	var head struct {
		Metadata struct{ UID, ResourceVersion string } `json:"metadata"`
		Data     map[string]any                        `json:"data"`
	}
	require.NoError(t, json.Unmarshal(body, &head))
	require.Equal(t, string(secret.UID), head.Metadata.UID)
	require.Equal(t, secret.ResourceVersion, head.Metadata.ResourceVersion)
	if secret.Immutable != nil && *secret.Immutable {
		require.Empty(t, head.Data, "the API server refuses to change an immutable Secret's data")
	}
	merged, err := jsonpatch.MergePatch(document, body)
	require.NoError(t, err)
	out := &corev1.Secret{}
	require.NoError(t, json.Unmarshal(merged, out))
	out.ResourceVersion = fmt.Sprint(version(secret.ResourceVersion) + 1)
	return out
}

// caError is a CA that cannot sign and says why.
type caError string

func (e caError) Error() string  { return string(e) + ": for a test" }
func (e caError) Reason() string { return string(e) }
