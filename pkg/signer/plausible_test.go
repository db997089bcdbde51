package signer

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

func TestPlausible(t *testing.T) {
	ca, web := testCA(t), service("web")
	issued := issue(t, ca, wantedBy(web), epoch)
	headless := service("db")
	headless.Spec.ClusterIP = corev1.ClusterIPNone
	assert.True(t, Plausible(managed(issued), api.DefaultInstance))
	assert.True(t, Plausible(managed(issue(t, ca, wantedBy(headless), epoch)), api.DefaultInstance))
	caKey, err := pki.EncodeKey(ca.Key)
	assert.NoError(t, err)
	for name, change := range map[string]func(s *corev1.Secret){
		"no label":          func(s *corev1.Secret) { s.Labels = nil },
		"another instance":  func(s *corev1.Secret) { s.Labels[api.LabelManagedBy] = "another" },
		"another type":      func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque },
		"empty":             func(s *corev1.Secret) { s.Data = nil },
		"garbage":           func(s *corev1.Secret) { s.Data[corev1.TLSCertKey] = []byte("x") },
		"no key":            func(s *corev1.Secret) { delete(s.Data, corev1.TLSPrivateKeyKey) },
		"another namespace": func(s *corev1.Secret) { s.Namespace = "bank" },
		"a CA": func(s *corev1.Secret) {
			s.Data = map[string][]byte{corev1.TLSCertKey: pki.EncodeCertificates(ca.Certificate), corev1.TLSPrivateKeyKey: caKey}
		},
	} {
		t.Run(name, func(t *testing.T) {
			secret := managed(issued)
			change(secret)
			assert.False(t, Plausible(secret, api.DefaultInstance))
		})
	}
}
