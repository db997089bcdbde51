package status

import (
	"crypto"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/signertest"
)

var migrationTime = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

type serviceCAKey struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// newServiceCA returns a CA with service-ca's name.
func newServiceCA(t *testing.T, id byte, ends time.Time) serviceCAKey {
	t.Helper()
	key, err := pki.GenerateKey(pki.RSA2048)
	require.NoError(t, err)
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "openshift-service-serving-signer@1"}, SubjectKeyId: []byte{id}, NotBefore: migrationTime.AddDate(-1, 0, 0), NotAfter: ends,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	return serviceCAKey{certify(t, template, serviceCAKey{template, key}, key.Public()), key}
}

func certify(t *testing.T, template *x509.Certificate, by serviceCAKey, public crypto.PublicKey) *x509.Certificate {
	t.Helper()
	return signertest.Certify(t, template, by.cert, public, by.key)
}

func (c serviceCAKey) data(t *testing.T) map[string][]byte {
	t.Helper()
	key, err := pki.EncodeKey(c.key)
	require.NoError(t, err)
	return map[string][]byte{"tls.crt": pki.EncodeCertificates(c.cert), "tls.key": key}
}

func with(data map[string][]byte, key string, value []byte) map[string][]byte {
	out := map[string][]byte{key: value}
	for k, v := range data {
		if _, set := out[k]; !set {
			out[k] = v
		}
	}
	return out
}

// statusOf returns the status of a CA with the signing generation and the roots of generations 1, 2, ....
func statusOf(t *testing.T, signing int, roots ...*x509.Certificate) *CA {
	t.Helper()
	var lines []string
	for i, root := range roots {
		r := api.CAGenerationRecord{Number: i + 1, Origin: api.OriginOwn, Root: pki.Fingerprint(root)}
		if strings.HasPrefix(root.Subject.CommonName, "openshift") {
			r.Origin = api.OriginImported
		}
		if i < signing {
			r.SignsSince = migrationTime
		}
		line, err := json.Marshal(r)
		require.NoError(t, err)
		lines = append(lines, string(line))
	}
	s := ParseCA(map[string]string{
		api.CAGeneration: strconv.Itoa(signing), api.CAPhase: api.PhaseStable, api.CAGenerations: strings.Join(lines, "\n"),
		api.BundleKey: string(pki.EncodeCertificates(roots...)),
	})
	return &s
}

// Each state of a migration, and each problem that blocks it.
func TestDecideMigration(t *testing.T) {
	year := migrationTime.AddDate(1, 0, 0)
	now, before := newServiceCA(t, 1, year), newServiceCA(t, 2, year)
	good := now.data(t)
	rotated := with(with(good, "intermediate-ca.crt", pki.EncodeCertificates(certify(t, now.cert, before, now.cert.PublicKey))),
		"ca-bundle.crt", pki.EncodeCertificates(now.cert, certify(t, before.cert, now, before.cert.PublicKey)))
	key, err := ParseSigningKey(rotated)
	require.NoError(t, err)
	own, err := pki.NewRoot(before.key, 1, pki.Constraints{PermittedDNS: []string{"svc"}}, migrationTime, year)
	require.NoError(t, err)
	current, former := ServiceCASecret{State: SecretCurrent}, ServiceCASecret{State: SecretFormer}
	running := []string{"openshift-service-ca/service-ca", "openshift-service-ca-operator/service-ca-operator"}
	for name, c := range map[string]struct {
		facts MigrationFacts
		step  MigrationStep
		says  string // in Text, Next or InTheWay
	}{
		"nothing":                   {MigrationFacts{}, "", "does not exist: there is no service-ca"},
		"no key":                    {MigrationFacts{Signing: with(good, "tls.key", nil)}, "", "tls.key: must hold the CA's private key"},
		"another's key":             {MigrationFacts{Signing: with(good, "tls.key", before.data(t)["tls.key"])}, "", "does not belong to the certificate"},
		"garbage":                   {MigrationFacts{Signing: with(good, "tls.crt", []byte("garbage"))}, "", "tls.crt: must hold one certificate"},
		"damaged beside it":         {MigrationFacts{Signing: with(good, "intermediate-ca.crt", []byte("garbage"))}, "", "intermediate-ca.crt: must hold one certificate"},
		"before the signer":         {MigrationFacts{Signing: rotated}, MigrationImport, "ConfigMap servingcert-extra-roots"},
		"written":                   {MigrationFacts{Signing: rotated, Import: key.Import()}, "", "Install servingcert in namespace"},
		"another is imported":       {MigrationFacts{Signing: good, Import: before.data(t)}, "", "holds another CA: delete it first"},
		"after the signer":          {MigrationFacts{Signing: good, Status: statusOf(t, 1, own)}, MigrationImport, "import the CA"},
		"rotated, after the signer": {MigrationFacts{Signing: rotated, Status: statusOf(t, 1, own)}, MigrationImport, "before the signer starts for the first time"},
		"it waits":                  {MigrationFacts{Signing: good, Status: statusOf(t, 1, own, now.cert)}, MigrationFollow, "generation 2"},
		"it signs":                  {MigrationFacts{Signing: good, Status: statusOf(t, 1, now.cert)}, MigrationRotate, "rotate the CA"},
		"service-ca runs":           {MigrationFacts{Signing: good, Status: statusOf(t, 2, now.cert, own), Running: running}, "", "kubectl -n openshift-service-ca-operator scale deployment service-ca-operator"},
		"without the flag":          {MigrationFacts{Signing: good, Status: statusOf(t, 2, now.cert, own), WithoutCompat: []string{"Deployment x"}}, "", "on Deployment x"},
		"a Secret of before":        {MigrationFacts{Signing: good, Status: statusOf(t, 2, now.cert, own), Secrets: []ServiceCASecret{current, former}}, MigrationAdopt, "on 1 Secret"},
		"their moments":             {MigrationFacts{Signing: good, Status: statusOf(t, 2, now.cert, own), Secrets: []ServiceCASecret{current}}, "", "Wait: servingcert manages 0 of 1 Secret"},
		"done":                      {MigrationFacts{Signing: good, Status: statusOf(t, 2, now.cert, own), Secrets: []ServiceCASecret{{State: SecretOurs}}}, "", "Done: servingcert manages 1 of 1 Secret"},
		"done, and the key is gone": {MigrationFacts{Status: statusOf(t, 2, now.cert, own), Secrets: []ServiceCASecret{{State: SecretOurs}}}, "", "Done"},
		"rotated after the import":  {MigrationFacts{Signing: before.data(t), Status: statusOf(t, 2, now.cert, own), Secrets: []ServiceCASecret{current}}, MigrationAdopt, "on 1 Secret"},
		"expired":                   {MigrationFacts{Now: year, Signing: good, Status: statusOf(t, 1, own), Secrets: []ServiceCASecret{current}}, MigrationAdopt, "on 1 Secret"},
		"expired, and it runs":      {MigrationFacts{Now: year, Signing: good, Status: statusOf(t, 1, own), Running: running, Secrets: []ServiceCASecret{current}}, "", "Stop service-ca"},
		"expired, and nothing else": {MigrationFacts{Now: year, Signing: good}, "", "service-ca's CA cannot be imported"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.facts.Now.IsZero() {
				c.facts.Now = migrationTime
			}
			m := DecideMigration(c.facts)
			assert.Equal(t, c.step, m.Step, "%+v", m)
			all := strings.Join(append(append([]string{m.Text}, m.Next...), m.InTheWay...), "\n")
			assert.Contains(t, all, c.says)
			assert.NotContains(t, all, "PRIVATE KEY")
			assert.Equal(t, m.Step == "" && len(m.InTheWay) == 0, len(m.Next) > 0, "there is always something to do: %+v", m)
		})
	}
}

// The state of a Secret depends on its signature and on service-ca's metadata.
func TestSecretOfServiceCA(t *testing.T) {
	year := migrationTime.AddDate(1, 0, 0)
	now, before, other := newServiceCA(t, 1, year), newServiceCA(t, 2, year), newServiceCA(t, 3, year)
	key := SigningKey{Root: now.cert, Former: []*x509.Certificate{certify(t, before.cert, now, before.cert.PublicKey)}}
	leaf := func(by serviceCAKey) []byte {
		return pki.EncodeCertificates(certify(t, &x509.Certificate{NotAfter: year, DNSNames: []string{"a"}}, by, other.key.Public()))
	}
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u", Annotations: map[string]string{api.OpenShiftSecretName: "web-tls"}}}
	assert.Equal(t, "web-tls", ServiceCASecretName(svc))
	for name, c := range map[string]struct {
		change func(*corev1.Secret)
		state  SecretState
		why    string
	}{
		"current":            {func(*corev1.Secret) {}, SecretCurrent, ""},
		"alpha":              {func(s *corev1.Secret) { s.Annotations = map[string]string{api.OpenShiftServiceUIDAlpha: "u"} }, SecretCurrent, ""},
		"of the CA before":   {func(s *corev1.Secret) { s.Data["tls.crt"] = leaf(before) }, SecretFormer, ""},
		"of another":         {func(s *corev1.Secret) { s.Data["tls.crt"] = leaf(other) }, SecretChanged, "was issued by"},
		"garbage":            {func(s *corev1.Secret) { s.Data["tls.crt"] = []byte("ascii art") }, SecretChanged, "no readable certificate"},
		"of another Service": {func(s *corev1.Secret) { s.Annotations[api.OpenShiftServiceUID] = "v" }, SecretForeign, "left unchanged"},
		"not owned":          {func(s *corev1.Secret) { s.OwnerReferences = nil }, SecretForeign, "left unchanged"},
		"of another type":    {func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque }, SecretForeign, "left unchanged"},
		"ours":               {func(s *corev1.Secret) { s.Labels = map[string]string{api.LabelManagedBy: "servingcert"} }, SecretOurs, ""},
	} {
		t.Run(name, func(t *testing.T) {
			secret := &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{
					Annotations:     map[string]string{api.OpenShiftServiceUID: "u"},
					OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: "web", UID: "u"}},
				},
				Type: corev1.SecretTypeTLS, Data: map[string][]byte{"tls.crt": leaf(now)},
			}
			c.change(secret)
			got := SecretOfServiceCA(svc, "web-tls", secret, key, "servingcert")
			assert.Equal(t, c.state, got.State)
			assert.Contains(t, got.Why, c.why)
			assert.Equal(t, c.why == "", got.Why == "")
		})
	}
	assert.Equal(t, SecretMissing, SecretOfServiceCA(svc, "web-tls", nil, key, "servingcert").State)
}
