package signer

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/pki"
)

// podScene is a Service whose pods make their keys, and the input of its condition.
type podScene struct {
	Situation
	web *corev1.Service
}

func newPodScene(ca *pki.Authority, annotations ...string) *podScene {
	web := service("web", append([]string{api.AnnotationSecretName, "", api.AnnotationKeySource, "pod"}, annotations...)...)
	return &podScene{Situation{
		Now: epoch, Key: types.NamespacedName{Namespace: "shop"}, OptedIn: true, Limits: api.DefaultLimits(), Authority: ca,
		Requesters: []*corev1.Service{web}, Kept: map[types.UID]Kept{},
	}, web}
}

// settle writes the desired condition, and returns its message and whether it has a proof.
func (p *podScene) settle(t require.TestingT) string {
	for _, status := range UnnamedStatusUpdate(p.Situation).Services {
		p.web.Status.Conditions = nil
		if status.Ready != nil {
			p.web.Status.Conditions = status.Ready.Both()
		}
	}
	c := state.Of(p.web, api.ConditionReady)
	require.Len(t, p.web.Status.Conditions, len(c.Both()))
	if c == nil {
		return "none"
	}
	text := fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
	if state.ReadyOf(p.web).Proof != "" {
		text += recorded
	}
	return text
}

func (p *podScene) may() bool { return MayHavePodKeys(p.web, p.OptedIn, p.Authority) }

const (
	hasPodKeys = "True PodKeys: each pod makes its key, and gets a certificate for web.shop.svc, web.shop.svc.cluster.local"
	recorded   = " (and a proof)"
	noOptIn    = `False NamespaceNotOptedIn: namespace "shop" does not have label servingcert.dev/inject=enabled, and there is no proof that the Service requested the same names while it had it: pods get no certificates until the namespace has the label`
	noLonger   = `; namespace "shop" no longer has label servingcert.dev/inject=enabled`
)

// Without the label, pods still get certificates while the Service's request does not change: the
// condition has a proof, which an invalid annotation does not remove.
func TestPodKeysGoOnWithoutTheOptIn(t *testing.T) {
	p := newPodScene(testCA(t))
	assert.Equal(t, hasPodKeys+recorded, p.settle(t))
	proof := state.ReadyOf(p.web).Proof
	assert.Equal(t, hasPodKeys+recorded, p.settle(t))
	assert.Equal(t, proof, state.ReadyOf(p.web).Proof, "nothing is written again")

	p.OptedIn = false
	assert.Equal(t, hasPodKeys+noLonger+recorded, p.settle(t))
	assert.True(t, p.may())
	p.Limits.ClusterDomain, p.Limits.FormerDomains = "new.local", []string{"cluster.local"}
	assert.Contains(t, p.settle(t), "web.shop.svc.new.local")
	assert.True(t, p.may(), "the cluster's domain is not the user's to change")
	p.Limits = api.DefaultLimits()

	for name, change := range map[string]func(svc *corev1.Service){
		"more names":   func(svc *corev1.Service) { svc.Annotations[api.AnnotationExtraDNSNames] = "more.web.shop.svc" },
		"no such name": func(svc *corev1.Service) { svc.Annotations[api.AnnotationExtraDNSNames] = "www.google.com" },
		"addresses": func(svc *corev1.Service) {
			svc.Annotations[api.AnnotationClusterIPs], svc.Spec.ClusterIPs = "true", []string{"10.0.0.1"}
		},
		"wildcards": func(svc *corev1.Service) { svc.Spec.ClusterIP = corev1.ClusterIPNone },
	} {
		before := p.web.DeepCopy()
		change(p.web)
		assert.False(t, p.may(), name)
		assert.Equal(t, noOptIn+recorded, p.settle(t), name)
		assert.Equal(t, noOptIn+recorded, p.settle(t), name)
		p.web.Annotations, p.web.Spec = before.Annotations, before.Spec
		assert.True(t, p.may(), name)
		assert.Equal(t, hasPodKeys+noLonger+recorded, p.settle(t), name)
	}
	p.web.Annotations[api.AnnotationDuration] = "x"
	assert.Contains(t, p.settle(t), "False InvalidAnnotation: servingcert.dev/duration")
	assert.True(t, p.may(), "its names are the same")

	p.web.UID = "another"
	assert.False(t, p.may(), "a Service that was deleted and made again")
}

// Without a proof, pods get no certificates, and the condition reports it until there is one.
func TestPodKeysWithoutAProof(t *testing.T) {
	for name, proof := range map[string]string{
		"of a signer before proofs": "",
		"forged":                    "TUlJQg",
		"no base64":                 "A",
	} {
		p := newPodScene(testCA(t))
		p.OptedIn = false
		had := metav1.Condition{Type: api.ConditionReady, Status: metav1.ConditionTrue, Reason: api.ReasonPodKeys, Message: strings.TrimPrefix(hasPodKeys, "True PodKeys: ")}
		p.web.Status.Conditions = state.Say(had, state.Ready{Proof: proof}).Both()
		assert.False(t, p.may(), name)
		assert.True(t, WasOptedIn(p.web), "pods wait for the label")
		for range 2 {
			assert.Contains(t, p.settle(t), noOptIn, name)
			assert.False(t, p.may(), name)
			assert.True(t, WasOptedIn(p.web), "and are not denied for good")
		}
		p.AuthorityErr, p.Authority = caError("CALost"), nil
		assert.Contains(t, p.settle(t), noOptIn, "as long as the CA is not known")
		assert.False(t, p.may(), name)
	}
	p := newPodScene(testCA(t))
	p.OptedIn = false
	assert.Equal(t, "none", p.settle(t), "it never asked while the label was there")

	p = newPodScene(&pki.Authority{Issuer: testCA(t).Issuer})
	assert.Equal(t, hasPodKeys, p.settle(t), "a CA elsewhere signs certificates alone")
}

// After a CA rotation, each proof is replaced at its own time, also without the label. A proof of an
// unknown CA is not replaced.
func TestTheProofUnderANewCA(t *testing.T) {
	l := generations(t, 3)
	p := newPodScene(l.At(epoch, 1))
	p.settle(t)
	first := state.ReadyOf(p.web).Proof
	p.OptedIn = false
	p.Authority = l.At(epoch, 2)
	p.Authority.Reissue = pki.Window{From: epoch.Add(time.Hour), Until: epoch.Add(2 * time.Hour)}
	at := UnnamedStatusUpdate(p.Situation).NextAt
	assert.True(t, at.After(epoch.Add(time.Hour)) && at.Before(epoch.Add(2*time.Hour)), at)
	assert.Equal(t, hasPodKeys+noLonger+recorded, p.settle(t))
	assert.Equal(t, first, state.ReadyOf(p.web).Proof)

	p.Now = at
	assert.Zero(t, UnnamedStatusUpdate(p.Situation).NextAt)
	assert.Equal(t, hasPodKeys+noLonger+recorded, p.settle(t))
	assert.NotEqual(t, first, state.ReadyOf(p.web).Proof)
	p.Now = epoch
	assert.Zero(t, UnnamedStatusUpdate(p.Situation).NextAt, "what this CA signed has no time at which it is replaced")

	p.Authority = l.At(epoch, 3)
	p.Authority.Older = nil // the generations before are distrusted
	assert.False(t, p.may())
	assert.Equal(t, noOptIn+recorded, p.settle(t))
	p.OptedIn = true
	assert.Equal(t, hasPodKeys+recorded, p.settle(t))
	p.OptedIn = false
	assert.True(t, p.may())
}

// In a namespace without the label, a Service gets no certificates for any condition that another
// user writes, and any request.
func TestNoConditionGivesPodKeysWithoutTheOptIn(t *testing.T) {
	ca := testCA(t)
	another := newPodScene(ca)
	another.web.UID = "another"
	another.settle(t)
	proof := state.ReadyOf(another.web).Proof
	rapid.Check(t, func(t *rapid.T) {
		p := newPodScene(ca)
		p.OptedIn = false
		ready := drawReady(t, proof, rapid.StringMatching(`[A-Za-z0-9_-]{0,100}`).Draw(t, "another proof"))
		p.web.Status.Conditions = ready.Both()
		if p.may() {
			t.Fatal(ready.State)
		}
		p.settle(t)
		if p.may() {
			t.Fatal(p.web.Status.Conditions)
		}
	})
}

// The condition of a Service without a request is removed with the last Secret that it keeps.
func TestTheConditionGoesWithTheLastSecret(t *testing.T) {
	p := newPodScene(testCA(t))
	delete(p.web.Annotations, api.AnnotationKeySource)
	p.Kept[p.web.UID] = Kept{Names: []string{"web-tls"}, All: 1}
	assert.Empty(t, UnnamedStatusUpdate(p.Situation).Services)
	delete(p.Kept, p.web.UID)
	assert.Equal(t, []ServiceStatus{{Service: p.web}}, UnnamedStatusUpdate(p.Situation).Services)
}

// A proof is valid for the requested addresses only.
func TestAProofIsForTheAddressesThatAreAskedFor(t *testing.T) {
	p := newPodScene(signsAddresses(t))
	p.Limits = permissive()
	p.settle(t)
	p.OptedIn = false
	p.web.Spec.ClusterIPs = []string{"10.0.0.1"}
	assert.True(t, p.may(), "it asks for no address")
	p.web.Annotations[api.AnnotationClusterIPs] = "true"
	assert.False(t, p.may())
	p.OptedIn = true
	p.settle(t)
	p.OptedIn = false
	assert.True(t, p.may())
	p.web.Spec.ClusterIPs = []string{"10.0.0.2"}
	assert.False(t, p.may())
}

// Without a CA, the conditions of Services whose pods have certificates stay; others report it.
func TestPodKeysWithoutACA(t *testing.T) {
	p := newPodScene(testCA(t))
	lost := p.Situation
	lost.Authority, lost.AuthorityErr = nil, caError("CALost")
	told := UnnamedStatusUpdate(lost).Services
	require.Len(t, told, 1)
	assert.Equal(t, "CALost", told[0].Ready.Reason)
	p.settle(t)
	assert.Empty(t, UnnamedStatusUpdate(lost).Services)

	p.OptedIn = false
	for proof, told := range map[string]bool{"signed": true, "": false} { // it had them, or not, before its annotation was wrong
		p.web.Status.Conditions = condition(false, reasonInvalid, "", state.Ready{Proof: proof}).Both()
		assert.Equal(t, told, UnnamedStatusUpdate(p.Situation).Services[0].Ready != nil, proof)
	}
}

func TestWasOptedIn(t *testing.T) {
	ready := func(yes bool, reason Reason, proof string) *corev1.Service {
		svc := service("web")
		svc.Status.Conditions = condition(yes, reason, "", state.Ready{Proof: proof}).Both()
		return svc
	}
	assert.False(t, WasOptedIn(service("web")))
	assert.True(t, WasOptedIn(ready(true, "Issued", "")))
	assert.True(t, WasOptedIn(ready(false, reasonNotOptedIn, "")))
	assert.True(t, WasOptedIn(ready(false, reasonInvalid, "signed")))
	assert.False(t, WasOptedIn(ready(false, reasonInvalid, "")))
}
