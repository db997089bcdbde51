package signer

import (
	"testing"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

// A Secret with an RSA4096 key keeps that key type, even if new ones are not permitted.
func TestAnRSA4096KeyThatIsInUseIsKept(t *testing.T) {
	ca := testCA(t)
	old, newer := service("web", api.AnnotationKeyAlgorithm, "RSA4096"), service("api")
	newer.CreationTimestamp = metav1.NewTime(old.CreationTimestamp.Add(day))
	issued := issueBy(t, ca, wantedBy(old, newer), epoch)
	for name, change := range map[string]func(w *scene){
		"its only Service is refused":           func(w *scene) { w.services = w.services[:1] },
		"one of its Services is refused":        func(*scene) {},
		"the Services ask, and it is permitted": func(w *scene) { w.limits.PermitRSA4096 = true },
	} {
		t.Run(name, func(t *testing.T) {
			w := newScene(ca, managed(issued, old, newer), old.DeepCopy(), newer.DeepCopy())
			change(w)
			s := w.situation()
			s.Secret.Leaf.KeyAlgorithm = pki.RSA4096 // to draw one takes seconds
			s.Secret.OwnerReferences = ownerReferences(nil, w.services)
			d := Decide(s, OwnershipOf(s))
			assert.Equal(t, pki.RSA4096, d.Wanted.Params.KeyAlgorithm)
			assert.NotEqual(t, reasonAlgorithm, d.Reason)
			s.Now = issued.Leaf.NotAfter
			d = Decide(s, OwnershipOf(s))
			assert.Equal(t, reasonExpired, d.Reason)
			assert.Equal(t, pki.RSA4096, d.Wanted.Params.KeyAlgorithm)
			assert.Equal(t, tokensOfRSA4096, d.Tokens, "but not many at once")
		})
	}
}

func TestRSA4096HasToBePermitted(t *testing.T) {
	ca := testCA(t)
	web := service("web", api.AnnotationKeyAlgorithm, "RSA4096")
	w := newScene(ca, nil, web)
	s, d := w.decide()
	assert.False(t, d.Issues())
	assert.Equal(t, map[string]string{"web": `False InvalidAnnotation: servingcert.dev/key-algorithm: "RSA4096": not permitted: the signer was started without --permit-rsa4096, and such a key takes seconds to generate: must be ECDSAP256, ECDSAP384, ECDSAP521, ED25519, RSA2048, RSA3072, MLDSA44 or MLDSA65`}, said(s, d))

	other := issueBy(t, ca, wantedBy(service("web")), epoch)
	w.secret = managed(other, web)
	s, d = w.decide()
	assert.Equal(t, pki.ECDSAP256, d.Wanted.Params.KeyAlgorithm, "it has another key, and keeps that")
	assert.Equal(t, "Nothing", d.Action.String())
	assert.Contains(t, said(s, d)["web"], `; the certificate in Secret "web-tls" is kept, and renewed without changes`)

	w.secret, w.limits.PermitRSA4096 = nil, true
	_, d = w.decide()
	assert.Equal(t, reasonFirst, d.Reason)
	assert.Equal(t, pki.RSA4096, d.Wanted.Params.KeyAlgorithm)
}
