package api_test

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

func withCondition(c metav1.Condition) *corev1.Service {
	return &corev1.Service{Status: corev1.ServiceStatus{Conditions: []metav1.Condition{{Type: "x"}, c}}}
}

// text draws what a condition may say beside its facts, above all what looks like
// facts.
func text(t *rapid.T) string {
	parts := rapid.SliceOf(rapid.OneOf(
		rapid.String(),
		rapid.SampledFrom([]string{"(", ")", " ", ", ", `"`, `Secret "`, `": `, "leaf sha256:" + someLeaf, "request ", " since ", "2026-05-01T12:00:00Z"}),
	)).Draw(t, "text")
	return strings.Join(parts, "")
}

func drawLeaf(t *rapid.T) string {
	return rapid.StringMatching(`[0-9a-f]{64}`).Draw(t, "leaf")
}

func TestReadyFactsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := api.ReadyFacts{Secret: rapid.StringMatching(`[a-z0-9]([-a-z0-9.]{0,20}[a-z0-9])?`).Draw(t, "secret"), Leaf: drawLeaf(t)}
		if rapid.Bool().Draw(t, "asked for") {
			want.Request = rapid.StringMatching(`[0-9a-f]{8,16}`).Draw(t, "request")
		}
		svc := withCondition(metav1.Condition{Type: api.ConditionReady, Status: metav1.ConditionTrue, Message: want.Message(text(t))})
		got, ok := api.ReadyOf(svc)
		assert.True(t, ok)
		assert.Equal(t, want, got)
	})
}

func TestServingFactsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		since := time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "since"), rapid.Int64Range(0, 1e9-1).Draw(t, "ns")).In(time.FixedZone("", 7200))
		want := api.ServingFacts{Leaf: drawLeaf(t), Since: since}
		status := rapid.SampledFrom([]metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown}).Draw(t, "status")
		got, ok := api.ServingOf(withCondition(metav1.Condition{Type: api.ConditionServing, Status: status, Message: want.Message(text(t))}))
		assert.True(t, ok)
		assert.Equal(t, api.ServingFacts{Leaf: want.Leaf, Since: since.UTC().Truncate(time.Second)}, got)
	})
}

func TestReadyMessage(t *testing.T) {
	facts := api.ReadyFacts{Secret: "web-tls", Request: "abc", Leaf: someLeaf}
	assert.Equal(t, `Secret "web-tls": web.shop.svc (request abc, leaf sha256:`+someLeaf+`)`, facts.Message("web.shop.svc"))
	assert.Equal(t, `Secret "web-tls": kept (leaf sha256:`+someLeaf+`)`, api.ReadyFacts{Secret: "web-tls", Leaf: someLeaf}.Message("kept"))
	assert.Equal(t, `Secret "web-tls": no certificate (request abc)`, api.ReadyFacts{Secret: "web-tls", Request: "abc"}.Message("no certificate"))
}

// What a user writes is quoted by errors, and is never a fact.
func TestReadyOfReadsNothingElsewhere(t *testing.T) {
	message := api.ReadyFacts{Secret: "web-tls", Request: "abc", Leaf: someLeaf}.Message("names")
	condition := func(status metav1.ConditionStatus, reason, message string) *corev1.Service {
		return withCondition(metav1.Condition{Type: api.ConditionReady, Status: status, Reason: reason, Message: message})
	}
	for name, svc := range map[string]*corev1.Service{
		"no condition":        {},
		"another condition":   withCondition(metav1.Condition{Type: api.ConditionServing, Status: metav1.ConditionTrue, Message: message}),
		"refused":             condition(metav1.ConditionFalse, "InvalidAnnotation", `servingcert.dev/duration: "leaf sha256:`+someLeaf+`": must be a duration`),
		"refused in our form": condition(metav1.ConditionFalse, "InvalidAnnotation", message),
		"a leaf in the text":  condition(metav1.ConditionTrue, "Issued", `Secret "web-tls": leaf sha256:`+someLeaf+` (request abc)`),
		"not at the end":      condition(metav1.ConditionTrue, "Issued", message+"."),
		"too short":           condition(metav1.ConditionTrue, "Issued", `Secret "web-tls": names (leaf sha256:`+someLeaf[:63]+`)`),
		"too long":            condition(metav1.ConditionTrue, "Issued", `Secret "web-tls": names (leaf sha256:`+someLeaf+`0)`),
		"upper case":          condition(metav1.ConditionTrue, "Issued", `Secret "web-tls": names (leaf sha256:`+strings.ToUpper(someLeaf)+`)`),
		"no Secret":           condition(metav1.ConditionTrue, "Issued", `(leaf sha256:`+someLeaf+`)`),
		"a quoted Secret":     condition(metav1.ConditionTrue, "Issued", `Secret "a" and "b": names (leaf sha256:`+someLeaf+`)`),
	} {
		_, ok := api.LeafOf(svc)
		assert.False(t, ok, name)
	}
	leaf, ok := api.LeafOf(condition(metav1.ConditionFalse, api.ReasonWaitingForTrust, message))
	assert.True(t, ok, "some names wait, the others are in it")
	assert.Equal(t, someLeaf, leaf)
}

func TestServingOfReadsNothingElsewhere(t *testing.T) {
	message := api.ServingFacts{Leaf: someLeaf, Since: time.Date(2026, 5, 1, 12, 0, 1, 0, time.UTC)}.Message("text")
	assert.Equal(t, "text (leaf sha256:"+someLeaf+" since 2026-05-01T12:00:01Z)", message)
	_, ok := api.ServingOf(withCondition(metav1.Condition{Type: api.ConditionReady, Message: message}))
	assert.False(t, ok, "another condition")
	_, ok = api.LeafOf(withCondition(metav1.Condition{Type: api.ConditionServing, Status: metav1.ConditionTrue, Message: message}))
	assert.False(t, ok, "that is the Ready condition's")
	for _, message := range []string{
		"", "text", message + ".", "(leaf sha256:" + someLeaf + ")", "(leaf sha256:" + someLeaf + " since yesterday)",
		"(leaf sha256:0a since 2026-05-01T12:00:00Z)", "(leaf sha256:" + someLeaf + " since 2026-05-01T12:00:00Z, x)",
	} {
		_, ok := api.ServingOf(withCondition(metav1.Condition{Type: api.ConditionServing, Message: message}))
		assert.False(t, ok, message)
	}
}

func TestPartIn(t *testing.T) {
	retained := metav1.Condition{Type: api.ConditionReady, Status: metav1.ConditionTrue, Reason: api.ReasonRetained, Message: api.ReadyFacts{Secret: "old-tls"}.Message("not asked for any more")}
	now := metav1.Now()
	tests := []struct {
		name   string
		change func(*corev1.Service)
		want   string
	}{
		{"retained", func(*corev1.Service) {}, "old-tls"},
		{"asks", func(s *corev1.Service) { s.Annotations = map[string]string{api.AnnotationSecretName: "web-tls"} }, "web-tls"},
		{"asks for nothing", func(s *corev1.Service) { s.Annotations = map[string]string{api.AnnotationSecretName: ""} }, ""},
		{"issued, and asks no more", func(s *corev1.Service) { s.Status.Conditions[1].Reason = "Issued" }, ""},
		{"not retained", func(s *corev1.Service) { s.Status.Conditions[1].Status = metav1.ConditionFalse }, ""},
		{"names none", func(s *corev1.Service) { s.Status.Conditions[1].Message = "kept" }, ""},
		{"no condition", func(s *corev1.Service) { s.Status.Conditions = nil }, ""},
		{"being deleted", func(s *corev1.Service) { s.DeletionTimestamp = &now }, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			svc := withCondition(retained)
			tt.change(svc)
			got, _ := api.PartIn(svc)
			assert.Equal(t, tt.want, got)
		})
	}
}

func TestServingFactsWithoutText(t *testing.T) {
	facts, ok := api.ServingOf(withCondition(metav1.Condition{Type: api.ConditionServing, Message: "(leaf sha256:" + someLeaf + " since 2026-05-01T12:00:01Z)"}))
	assert.True(t, ok)
	assert.Equal(t, someLeaf, facts.Leaf)
}

func TestNamesSecret(t *testing.T) {
	for message, want := range map[string]bool{
		"":                            false,
		`Secret "web-tls": x`:         true,
		`Secret "web": x "web-tls"`:   false,
		`Secret "web-tls" exists and`: false,
		`Secret "new-tls": x` + api.KeptText([]string{"old-tls", "web-tls"}) + ` (request 1)`:         true,
		`Secret "new-tls": x` + api.KeptText([]string{"my-web-tls"}):                                  false,
		`servingcert.dev/duration: "Secret \"web-tls\": x": no`:                                       false,
		`servingcert.dev/duration: "x": no` + api.KeptPairText("web-tls", "is kept"):                  true,
		`servingcert.dev/duration: "; the certificate in Secret \"web-tls\" is": not a duration`:      false,
		`servingcert.dev/duration: "x": no` + api.KeptPairText("web-tls-2", "is kept") + ` "web-tls"`: false,
	} {
		svc := &corev1.Service{}
		svc.Status.Conditions = []metav1.Condition{{Type: api.ConditionReady, Status: metav1.ConditionFalse, Message: message}}
		assert.Equal(t, want, api.NamesSecret(svc, "web-tls"), message)
	}
	assert.False(t, api.NamesSecret(&corev1.Service{}, "web-tls"))
	assert.Empty(t, api.KeptText(nil))
}

// An error quotes what a user wrote, and says what is allowed. Neither is a Secret's name.
func TestKeptSecretsAreNotReadOutOfErrors(t *testing.T) {
	kept := api.KeptText([]string{"old-tls", "web-tls"})
	for message, want := range map[string][]string{
		`servingcert.dev/cluster-ips: "; kept from before, and renewed until deleted: [": must be "true" or "false"`:        nil,
		`servingcert.dev/cluster-ips: "; kept from before, and renewed until deleted: [\"a\"]": must be "true" or "false"`:  nil,
		`servingcert.dev/cluster-ips: "; kept from before, and renewed until deleted: [": must be "true" or "false"` + kept: {"old-tls", "web-tls"},
		`Secret "new-tls": web.shop.svc` + kept + " (request 1)":                                                            {"old-tls", "web-tls"},
		"x; kept from before, and renewed until deleted: [\"a\" \"b\"":                                                      nil,
		`x; kept from before, and renewed until deleted: ["A"]`:                                                             nil,
		`x; kept from before, and renewed until deleted: []`:                                                                nil,
		api.KeptText([]string{"a"}) + api.OptInText("x"):                                                                    {"a"},
		strings.Repeat("x", api.MaxMessage) + kept:                                                                          nil,
	} {
		svc := withCondition(metav1.Condition{Type: api.ConditionReady, Status: metav1.ConditionFalse, Reason: "InvalidAnnotation", Message: message})
		assert.Equal(t, want, api.KeptSecrets(svc), message)
		for _, name := range []string{"true", "false", "a"} {
			assert.Equal(t, slices.Contains(want, name), api.NamesSecret(svc, name), "%s: %s", name, message)
		}
	}
}

func TestOptInProof(t *testing.T) {
	proof := strings.Repeat("aZ09_-", 100)
	for message, want := range map[string]string{
		"x" + api.OptInText(proof):                             proof,
		"x (proof a)" + api.OptInText(proof):                   proof,
		"x" + api.OptInText(""):                                "",
		"x" + api.OptInText(proof) + ".":                       "",
		"x (proof a/b)":                                        "",
		"x (proof )":                                           "",
		"x (proof a, proof b)":                                 "",
		"x (leaf sha256:" + someLeaf + ")":                     "",
		"x" + api.OptInText(strings.Repeat("a", 1001)):         "",
		strings.Repeat("x", api.MaxMessage) + " (proof short)": "",
	} {
		svc := withCondition(metav1.Condition{Type: api.ConditionReady, Message: message})
		assert.Equal(t, want, api.OptInProof(svc), "%.200s", message)
	}
	assert.Empty(t, api.OptInProof(&corev1.Service{}))
}
