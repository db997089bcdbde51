package state

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/servingcert/servingcert/pkg/api"
)

var someLeaf = strings.Repeat("0a", 32)

func with(conditions ...metav1.Condition) *corev1.Service {
	return &corev1.Service{Status: corev1.ServiceStatus{Conditions: append([]metav1.Condition{{Type: "x"}}, conditions...)}}
}

func says[S State](conditionType, message string, s S) *corev1.Service {
	return with(Say(metav1.Condition{Type: conditionType, Status: metav1.ConditionFalse, Message: message}, s).Both()...)
}

// drawText draws a message, which no process parses.
func drawText(t *rapid.T) string {
	parts := rapid.SliceOf(rapid.OneOf(
		rapid.String(),
		rapid.SampledFrom([]string{"(", ")", `"`, `Secret "`, `": `, "leaf sha256:" + strings.Repeat("0b", 32), "request 1", " since 2026-05-01T12:00:00Z"}),
	)).Draw(t, "text")
	return strings.Join(parts, "")
}

func TestStatesReadBack(t *testing.T) {
	name, leaf := rapid.StringMatching(`[a-z0-9][a-z0-9.-]{0,20}`), rapid.StringMatching(`[0-9a-f]{64}`)
	names := rapid.SliceOfN(name, 1, 4)
	rapid.Check(t, func(t *rapid.T) {
		want := Ready{
			Secret: name.Draw(t, "secret"), Request: rapid.StringMatching(`[0-9a-f]{8,16}`).Draw(t, "request"), Leaf: leaf.Draw(t, "leaf"),
			Chain: rapid.SliceOfN(rapid.StringMatching(`[0-9a-f]{16}(\.[0-9a-f]{16}){0,3}`), 1, 4).Draw(t, "chain"),
			Kept:  slices.Sorted(slices.Values(names.Draw(t, "kept"))), Names: names.Draw(t, "names"), Proof: rapid.StringMatching(`[A-Za-z0-9_-]{1,700}`).Draw(t, "proof"),
		}
		assert.Equal(t, want, ReadyOf(says(api.ConditionReady, drawText(t), want)))

		since := time.Unix(rapid.Int64Range(1, 1<<33).Draw(t, "since"), 0).In(time.FixedZone("", 7200))
		ports := rapid.StringMatching(`([0-9a-f]{16})?`).Draw(t, "ports")
		stale := rapid.SampledFrom([][]StaleWorkload{nil, {{Kind: "Deployment", Name: "web", OnRotate: api.OnRotateRestart}, {OnRotate: api.OnRotateReload}}}).Draw(t, "stale")
		got, ok := ServingOf(says(api.ConditionServing, drawText(t), Serving{want.Leaf, since, ports, stale}))
		assert.True(t, ok)
		assert.Equal(t, Serving{want.Leaf, since.UTC(), ports, stale}, got)
	})
}

// The form is what other versions read: it changes only with the version.
func TestTheFormOfStates(t *testing.T) {
	since := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for want, c := range map[string]*Condition{
		`{"v":1,"state":{"secret":"web-tls","request":"abc","leaf":"` + someLeaf + `","kept":["a"],"names":["b"],"proof":"x"}}`: Say(metav1.Condition{},
			Ready{Secret: "web-tls", Request: "abc", Leaf: someLeaf, Kept: []string{"a"}, Names: []string{"b"}, Proof: "x"}),
		`{"v":1,"state":{}}`: Say(metav1.Condition{}, Ready{}),
		`{"v":1,"state":{"leaf":"` + someLeaf + `","since":"2026-05-01T12:00:00Z"}}`: Say(metav1.Condition{}, Serving{Leaf: someLeaf, Since: since}),
		`{"v":1,"state":{"since":"2026-05-01T12:00:00Z","ports":"0a"}}`:              Say(metav1.Condition{}, Serving{Since: since, Ports: "0a"}),
	} {
		assert.Equal(t, want, c.State)
	}
}

// Data that is not a state of this version is ignored, and the prose message is not parsed.
func TestWhatIsNoStateSaysNothing(t *testing.T) {
	message := `Secret "web-tls": names (leaf sha256:` + someLeaf + `)`
	for _, text := range []string{
		"", "x", "null", "[]", `{"v":2,"state":{"secret":"web-tls"}}`, `{"state":{"secret":"web-tls"}}`, `{"v":1,"state":{"secret":1}}`, `{"v":1,"state":{"secret":"web-tls"}} x`,
		`{"v":1,"state":{"secret":"A b","leaf":"` + someLeaf + `"}}`, `{"v":1,"state":{"leaf":"` + strings.ToUpper(someLeaf) + `"}}`, `{"v":1,"state":{"kept":["A"],"names":["a b"],"proof":"a/b"}}`, `{"v":1,"state":{"chain":["","0a","` + strings.Repeat("0A", 8) + `","` + someLeaf + `"]}}`,
		`{"v":1,"state":{"secret":"web-tls"}}` + strings.Repeat(" ", api.MaxMessage),
	} {
		svc := with(metav1.Condition{Type: api.ConditionReady, Status: metav1.ConditionTrue, Message: message}, metav1.Condition{Type: api.ConditionReady + api.StateSuffix, Message: text})
		r := ReadyOf(svc)
		assert.Equal(t, Ready{Chain: r.Chain[:0], Kept: r.Kept[:0], Names: r.Names[:0]}, r, "%.200s", text)
	}
	assert.Equal(t, Ready{}, ReadyOf(&corev1.Service{}))
	assert.Equal(t, Ready{}, ReadyOf(with(metav1.Condition{Type: api.ConditionReady, Status: metav1.ConditionTrue, Message: message})))
	later := `{"v":1,"more":true,"state":{"secret":"web-tls","later":[1]}}`
	assert.Equal(t, Ready{Secret: "web-tls"}, ReadyOf(with(metav1.Condition{Type: api.ConditionReady + api.StateSuffix, Message: later})), "fields may be added")
}

// maxProof is the length of the longest proof.
const maxProof = 1000

// A state has room for everything that the limits allow, and stripping a Service keeps it whole.
func TestStatesHaveRoom(t *testing.T) {
	long := strings.Repeat("a", 253)
	r := Ready{Secret: long, Request: strings.Repeat("a", 64), Leaf: someLeaf, Proof: strings.Repeat("A", maxProof)}.
		WithKept(slices.Repeat([]string{long}, 100)).WithNames(slices.Repeat([]string{long}, 100))
	assert.Len(t, r.Names, maxShown)
	assert.Len(t, r.Kept, maxKeptBytes/(len(long)+len(`"",`)))
	assert.Len(t, Ready{}.WithKept(slices.Repeat([]string{long[:100]}, 100)).Kept, maxKeptBytes/103)
	r.Chain = slices.Repeat([]string{strings.TrimSuffix(strings.Repeat("0123456789abcdef.", 16), ".")}, maxShown)
	assert.Equal(t, r, ReadyOf(says(api.ConditionReady, "", r)))
	assert.LessOrEqual(t, len(Say(metav1.Condition{}, r).State), 8<<10)
	assert.Len(t, Ready{}.WithKept(slices.Repeat([]string{"web-tls"}, 100)).Kept, api.MaxKept)
}

func TestMessagesAreReadUpToTheirLimit(t *testing.T) {
	for size, want := range map[int]bool{api.MaxMessage: true, api.MaxMessage + 1: false} {
		const text = `{"v":1,"state":{"secret":"web-tls"}}`
		svc := with(metav1.Condition{Type: api.ConditionReady + api.StateSuffix, Message: text + strings.Repeat(" ", size-len(text))})
		assert.Equal(t, want, ReadyOf(svc).Secret == "web-tls", size)
	}
}

func TestPartIn(t *testing.T) {
	now := metav1.Now()
	for name, tt := range map[string]struct {
		change func(*corev1.Service)
		want   string
	}{
		"retained":                 {func(*corev1.Service) {}, "old-tls"},
		"asks":                     {func(s *corev1.Service) { s.Annotations = map[string]string{api.AnnotationSecretName: "web-tls"} }, "web-tls"},
		"asks for nothing":         {func(s *corev1.Service) { s.Annotations = map[string]string{api.AnnotationSecretName: ""} }, ""},
		"issued, and asks no more": {func(s *corev1.Service) { s.Status.Conditions[1].Reason = "Issued" }, ""},
		"names none":               {func(s *corev1.Service) { s.Status.Conditions[2].Message = `{"v":1,"state":{}}` }, ""},
		"no condition":             {func(s *corev1.Service) { s.Status.Conditions = nil }, ""},
		"being deleted":            {func(s *corev1.Service) { s.DeletionTimestamp = &now }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			retained := metav1.Condition{Type: api.ConditionReady, Status: metav1.ConditionTrue, Reason: api.ReasonRetained}
			svc := with(Say(retained, Ready{Secret: "old-tls"}).Both()...)
			tt.change(svc)
			got, ok := PartIn(svc)
			assert.Equal(t, tt.want, got)
			assert.Equal(t, tt.want != "" || name == "asks for nothing", ok)
		})
	}
}

func TestLeafOf(t *testing.T) {
	for _, leaf := range []string{"", strings.Repeat("0a", 32)} {
		svc := with(Say(metav1.Condition{Type: api.ConditionReady, Status: metav1.ConditionTrue, Reason: "Issued"}, Ready{Secret: "web-tls", Leaf: leaf}).Both()...)
		got, ok := LeafOf(svc)
		assert.Equal(t, leaf, got)
		assert.Equal(t, leaf != "", ok)
	}
}

func TestServingIsOfNow(t *testing.T) {
	other := strings.Repeat("0b", 32)
	since := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	ports := func(svc *corev1.Service, names ...string) *corev1.Service {
		for i, name := range names {
			svc.Spec.Ports = append(svc.Spec.Ports, corev1.ServicePort{Name: name, Port: int32(443 + i)})
		}
		return svc
	}
	one, two := api.NeedsHash(ports(with(), "https")), api.NeedsHash(ports(with(), "https", "tls"))
	ready := Say(metav1.Condition{Type: api.ConditionReady}, Ready{Secret: "web-tls", Leaf: someLeaf}).Both()
	podKeys := Say(metav1.Condition{Type: api.ConditionReady, Reason: api.ReasonPodKeys}, Ready{}).Both()
	for _, tt := range []struct {
		name  string
		ready []metav1.Condition
		said  Serving
		pods  bool // their keys
		want  bool
	}{
		{"as it is", ready, Serving{Leaf: someLeaf, Since: since, Ports: one}, false, true},
		{"another leaf", ready, Serving{Leaf: other, Since: since, Ports: one}, false, false},
		{"other ports", ready, Serving{Leaf: someLeaf, Since: since, Ports: two}, false, false},
		{"of no ports", ready, Serving{Leaf: someLeaf, Since: since, Ports: ""}, false, false},
		{"a renewal failed", nil, Serving{Leaf: someLeaf, Since: since, Ports: one}, false, true},
		{"keys of pods", podKeys, Serving{Leaf: "", Since: since, Ports: one}, true, true},
		{"keys of pods, other ports", podKeys, Serving{Leaf: "", Since: since, Ports: two}, true, false},
		{"keys of pods, said of a Secret", podKeys, Serving{Leaf: someLeaf, Since: since, Ports: one}, true, false},
	} {
		svc := ports(with(append(tt.ready, Say(metav1.Condition{Type: api.ConditionServing}, tt.said).Both()...)...), "https")
		if tt.pods {
			svc.Annotations = map[string]string{api.AnnotationKeySource: string(api.KeySourcePod)}
		}
		assert.Equal(t, tt.want, ServingIsOfNow(svc), tt.name)
	}
	assert.False(t, ServingIsOfNow(with(ready...)), "nothing is said")
}

func TestHas(t *testing.T) {
	r := Ready{Secret: "web-tls", Kept: []string{"old-tls"}}
	assert.True(t, r.Has("web-tls"))
	assert.True(t, r.Has("old-tls"))
	assert.False(t, r.Has("x"))
}

func TestConditionsAreTheSameIfWordsAndStateAre(t *testing.T) {
	say := func(message, secret string) *Condition {
		return Say(metav1.Condition{Type: api.ConditionReady, Message: message}, Ready{Secret: secret})
	}
	assert.True(t, Same(say("said", "web-tls"), say("said", "web-tls")))
	assert.False(t, Same(say("said", "web-tls"), say("said now", "web-tls")))
	assert.False(t, Same(say("said", "web-tls"), say("said", "old-tls")))
}
