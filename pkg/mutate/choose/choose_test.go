package choose

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/mutate/reasons"
)

func TestFromServices(t *testing.T) {
	for _, tt := range []struct {
		choice Choice
		want   bool
	}{
		{Choice{By: ByService}, true},
		{Choice{By: ByPod, Requested: true}, true},
		{Choice{By: ByPod}, false},
		{Choice{By: ByConvention, Requested: true}, false},
		{Choice{By: ByNothing}, false},
	} {
		assert.Equal(t, tt.want, tt.choice.FromServices(), "%+v", tt.choice)
	}
}

func TestANoteIsAddedOnce(t *testing.T) {
	var c Choice
	notes := []reasons.Note{{Reason: "A", Detail: "x"}, {Reason: "A", Detail: "y"}, {Reason: "B", Detail: "x"}}
	for range 2 {
		for _, n := range notes {
			c.note(n)
		}
	}
	assert.Equal(t, notes, c.Notes)
}

// A Secret has the password of its oldest Service, in any order of the Services.
func TestThePasswordOfTheOldest(t *testing.T) {
	at := func(name string, second int, password string) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{
			Name: name, CreationTimestamp: metav1.Unix(int64(second), 0),
			Annotations: map[string]string{api.AnnotationSecretName: "web-tls", api.AnnotationFormats: "keystore.p12", api.AnnotationKeystorePassword: password},
		}}
	}
	services := []*corev1.Service{at("newer", 2, "of-newer"), at("older", 1, "of-older"), at("newest", 3, "of-newest")}
	c := Choice{Secret: "web-tls"}
	_, password := c.formatsOf(viewsOf(services, &corev1.Pod{}))
	assert.Equal(t, "of-older", password)
}

// A Service without a selector cannot request the Secret of all pods, except one that is too large for
// its selector to be known: what it has is kept.
func TestWhoAsksForTheConventionalSecret(t *testing.T) {
	svc := func(selector map[string]string, ports int) *corev1.Service {
		annotations := map[string]string{api.AnnotationSecretName: api.ConventionalSecretName}
		return api.StripService(&corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: "web", Annotations: annotations},
			Spec:       corev1.ServiceSpec{Selector: selector, Ports: make([]corev1.ServicePort, ports)},
		}, api.Keep{Annotations: []string{api.AnnotationSecretName}, Selector: true, Ports: true})
	}
	for name, tt := range map[string]struct {
		svc  *corev1.Service
		asks bool
	}{
		"a selector":  {svc(map[string]string{"app": "web"}, 1), true},
		"no selector": {svc(nil, 1), false},
		"too large":   {svc(map[string]string{"app": "web"}, api.MaxPorts+1), true},
	} {
		assert.Equal(t, tt.asks, viewOf(tt.svc, &corev1.Pod{}).from == origin{secret: api.ConventionalSecretName}, name)
	}
}

// The webhook does not know which extra names a signer refuses, unless they are not valid names.
func TestRefusal(t *testing.T) {
	refused := func(names string) string {
		return refusal(&corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Annotations: map[string]string{api.AnnotationSecretName: "web-tls", api.AnnotationExtraDNSNames: names}},
			Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "web"}},
		})
	}
	assert.Empty(t, refused("shop.example.com,*.shop.example.com"))
	assert.Contains(t, refused("a_b"), api.AnnotationExtraDNSNames)
}

// A certificate from before does not make a request allowed that the signer has refused.
func TestRefusalOfAServiceWithACertificate(t *testing.T) {
	for reason, want := range map[string]string{api.ReasonWaitingForTrust: "", api.ReasonInvalid: "InvalidAnnotation: m"} {
		svc := asking("x", "y")
		ready := metav1.Condition{Type: api.ConditionReady, Status: metav1.ConditionFalse, Reason: reason, Message: "m"}
		svc.Status.Conditions = state.Say(ready, state.Ready{Secret: "web-tls", Leaf: strings.Repeat("0a", 32)}).Both()
		assert.Equal(t, want, refusal(svc), reason)
	}
}

// A refused Service that selects the pod concerns the pod only if it requests the pod's Secret.
func TestNotesAreAboutTheSecretOfThePod(t *testing.T) {
	for _, tt := range []struct {
		second string
		want   []reasons.Reason
	}{
		{"web-tls", []reasons.Reason{reasons.ServiceRefused}},
		{"other-tls", []reasons.Reason{reasons.SeveralServices}},
		{"A_B", []reasons.Reason{reasons.ImpossibleSecret}},
	} {
		second := asking(api.AnnotationDuration, "a day")
		second.Annotations[api.AnnotationSecretName] = tt.second
		second.CreationTimestamp = metav1.NewTime(time.Unix(1, 0))
		pod, known := selectedBy(asking("x", "y"), second)
		var noted []reasons.Reason
		for _, n := range Secret(pod, api.PodRequest{}, known).Notes {
			noted = append(noted, n.Reason)
		}
		assert.Equal(t, tt.want, noted, tt.second)
	}
}

func TestWhyAServiceIsPreferredToItself(t *testing.T) {
	assert.NotPanics(t, func() { whyPreferred(viewOf(asking("x", "y"), &corev1.Pod{}), viewOf(asking("x", "y"), &corev1.Pod{})) })
}

// TestASecretOfAnotherIssuer is the one of the Service, and has a CA of its own. The oldest Service
// decides who issues it.
func TestASecretOfAnotherIssuer(t *testing.T) {
	external, ours := asking(api.AnnotationIssuer, string(api.IssuerExternal)), asking("x", "y")
	ours.CreationTimestamp = metav1.NewTime(time.Unix(1, 0))
	pod, known := selectedBy(external, ours)
	c := Secret(pod, api.PodRequest{}, known)
	assert.Equal(t, ByService, c.By)
	assert.True(t, c.Requested)
	assert.False(t, c.Issued)
	external.CreationTimestamp = metav1.NewTime(time.Unix(2, 0))
	assert.True(t, Secret(pod, api.PodRequest{}, known).Issued)
	named := Secret(pod, api.PodRequest{SecretName: "web-tls"}, Known{Services: []*corev1.Service{external}})
	assert.True(t, named.FromServices(), "the API server need not be asked")
	assert.False(t, named.Issued)
}
