package signer

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer/issue"
	"github.com/servingcert/servingcert/test/signertest"
)

// world is shared by all drawn scenes: our CA, another one and a forged one.
type world struct{ ca, other, forged *pki.Authority }

func newWorld(t interface {
	Errorf(string, ...any)
	FailNow()
}) world {
	ca := testCA(t)
	return world{ca, testCA(t), forge(t, ca)}
}

// scene draws a namespace in any state that its users, or an attacker, can cause.
func (w world) scene(t *rapid.T) *scene {
	s := newScene(w.ca, nil)
	for _, name := range []string{"api", "db", "web"} {
		if rapid.Bool().Draw(t, name) {
			s.services = append(s.services, signertest.DrawService(t, name))
		}
	}
	if !seldom(t, 4, "no Secret") {
		s.secret = w.drawSecret(t, s.services)
	}
	s.now = epoch.Add(time.Duration(rapid.IntRange(0, 40*24).Draw(t, "hours later")) * time.Hour)
	s.notOptedIn, s.terminating = seldom(t, 5, "not opted in"), seldom(t, 8, "terminating")
	if seldom(t, 5, "CA cannot sign") {
		s.caErr = caError(oneOf(t, "why", "CALost", string(reasonPending)))
	}
	return s
}

func (w world) drawSecret(t *rapid.T, services []*corev1.Service) *corev1.Secret {
	secret := managed(w.drawPair(t, services))
	for _, name := range []string{"api", "db", "web"} {
		switch oneOf(t, "owner "+name, "no", "no", "lives", "lives", "before", "other kind") {
		case "lives":
			secret.OwnerReferences = append(secret.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "Service", Name: name, UID: types.UID("uid-of-" + name)})
		case "before":
			secret.OwnerReferences = append(secret.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "Service", Name: name, UID: types.UID("before-" + name)})
		case "other kind":
			secret.OwnerReferences = append(secret.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: name, UID: types.UID("uid-of-" + name)})
		}
	}
	secret.Labels = map[string]string{"app": "web"}
	if label := oneOf(t, "label", api.DefaultInstance, api.DefaultInstance, api.DefaultInstance, "another", ""); label != "" {
		secret.Labels[api.LabelManagedBy] = label
	}
	if seldom(t, 8, "opaque") {
		secret.Type = corev1.SecretTypeOpaque
	}
	if seldom(t, 4, "extra key") {
		secret.Data["password"] = []byte("x")
	}
	switch oneOf(t, "combined", "no", "no", "of the pair", "of another") {
	case "of the pair":
		withCombined(secret)
	case "of another":
		secret.Data[api.CombinedKey] = []byte("x")
	}
	if seldom(t, 5, "immutable") {
		yes := true
		secret.Immutable = &yes
	}
	if seldom(t, 8, "secret deleted") {
		now := metav1.NewTime(epoch)
		secret.DeletionTimestamp = &now
	}
	return secret
}

// drawPair draws the data of tls.crt and tls.key: valid, damaged or written by others.
func (w world) drawPair(t *rapid.T, services []*corev1.Service) issue.Issued {
	wanted := wantedBy(services...)
	if len(wanted.DNSNames) == 0 || wanted.External || seldom(t, 4, "for others") {
		wanted = wantedBy(service("web"))
	}
	by := oneOf(t, "by", w.ca, w.ca, w.ca, w.ca, w.other, w.forged)
	issued := issueBy(t, by, wanted, epoch)
	switch damage := oneOf(t, "damage", "no", "no", "no", "no", "empty", "no key", "no certificate", "garbage", "mismatch", "root"); damage {
	case "empty":
		return issue.Issued{}
	case "no key":
		issued.KeyPEM = nil
	case "no certificate":
		issued.CertPEM = nil
	case "garbage":
		issued.CertPEM = fmt.Appendf(nil, "garbage %s", issued.CertPEM)
	case "mismatch":
		issued.KeyPEM = issueBy(t, by, wanted, epoch).KeyPEM
	case "root":
		issued.CertPEM = pki.EncodeCertificates(issued.Leaf, by.Certificate)
	}
	return issued
}

func split(keyAndValue string) []string { return strings.SplitN(keyAndValue, "=", 2) }

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func oneOf[T any](t *rapid.T, label string, values ...T) T {
	return signertest.OneOf(t, label, values...)
}

func seldom(t *rapid.T, n int, label string) bool { return signertest.Seldom(t, n, label) }
