package state

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// The messages of these tests are those of v0: they never change.

func former(status metav1.ConditionStatus, reason, message string) Ready {
	return ReadyOf(with(metav1.Condition{Type: api.ConditionReady, Status: status, Reason: reason, Message: message}))
}

// What a user writes is quoted by errors, and is never a fact.
func TestFormerLeavesAreReadNowhereElse(t *testing.T) {
	message := `Secret "web-tls": names (request abc, leaf sha256:` + someLeaf + `)`
	for name, r := range map[string]Ready{
		"refused":             former(metav1.ConditionFalse, "InvalidAnnotation", `servingcert.dev/duration: "leaf sha256:`+someLeaf+`": must be a duration`),
		"refused in our form": former(metav1.ConditionFalse, "InvalidAnnotation", message),
		"a leaf in the text":  former(metav1.ConditionTrue, "Issued", `Secret "web-tls": leaf sha256:`+someLeaf+` (request abc)`),
		"not at the end":      former(metav1.ConditionTrue, "Issued", message+"."),
		"too short":           former(metav1.ConditionTrue, "Issued", `Secret "web-tls": names (leaf sha256:`+someLeaf[:63]+`)`),
		"too long":            former(metav1.ConditionTrue, "Issued", `Secret "web-tls": names (leaf sha256:`+someLeaf+`0)`),
		"no Secret":           former(metav1.ConditionTrue, "Issued", `(leaf sha256:`+someLeaf+`)`),
		"a quoted Secret":     former(metav1.ConditionTrue, "Issued", `Secret "a" and "b": names (leaf sha256:`+someLeaf+`)`),
	} {
		assert.Empty(t, r.Leaf, name)
	}
	for _, r := range []Ready{former(metav1.ConditionTrue, "Issued", message), former(metav1.ConditionFalse, api.ReasonWaitingForTrust, message)} {
		assert.Equal(t, Ready{Secret: "web-tls", Request: "abc", Leaf: someLeaf}, Ready{Secret: r.Secret, Request: r.Request, Leaf: r.Leaf})
	}
}

func TestFormerSecrets(t *testing.T) {
	const kept, pair = "; kept from before, and renewed until deleted: ", "; the certificate in Secret "
	for message, want := range map[string]bool{
		"":                            false,
		`Secret "web-tls": x`:         true,
		`Secret "web": x "web-tls"`:   false,
		`Secret "web-tls`:             false,
		`Secret "web-tls" exists and`: false,
		`Secret "new-tls": x` + kept + `["old-tls" "web-tls"] (request 1)`:                       true,
		`Secret "new-tls": x` + kept + `["my-web-tls"]`:                                          false,
		`servingcert.dev/duration: "Secret \"web-tls\": x": no`:                                  false,
		`servingcert.dev/duration: "x": no` + pair + `"web-tls" is kept`:                         true,
		`servingcert.dev/duration: "; the certificate in Secret \"web-tls\" is": not a duration`: false,
		`servingcert.dev/duration: "x": no` + pair + `"web-tls-2" is kept "web-tls"`:             false,
	} {
		assert.Equal(t, want, former(metav1.ConditionFalse, "x", message).Has("web-tls"), message)
	}
}

// An error quotes what a user wrote, and says what is allowed. Neither is a Secret's name.
func TestFormerKeptSecretsAreNotReadOutOfErrors(t *testing.T) {
	const kept = `; kept from before, and renewed until deleted: ["old-tls" "web-tls"]`
	for message, want := range map[string][]string{
		`servingcert.dev/cluster-ips: "; kept from before, and renewed until deleted: [": must be "true" or "false"`:        nil,
		`servingcert.dev/cluster-ips: "; kept from before, and renewed until deleted: [\"a\"]": must be "true" or "false"`:  nil,
		`servingcert.dev/cluster-ips: "; kept from before, and renewed until deleted: [": must be "true" or "false"` + kept: {"old-tls", "web-tls"},
		`Secret "new-tls": web.shop.svc` + kept + " (request 1)":                                                            {"old-tls", "web-tls"},
		"x; kept from before, and renewed until deleted: [\"a\" \"b\"":                                                      nil,
		`x; kept from before, and renewed until deleted: ["A"]`:                                                             nil,
		`x; kept from before, and renewed until deleted: []`:                                                                nil,
		`; kept from before, and renewed until deleted: ["a"]; the opt-in is recorded (proof x)`:                            {"a"},
		strings.Repeat("x", api.MaxMessage) + kept:                                                                          nil,
	} {
		assert.ElementsMatch(t, want, former(metav1.ConditionFalse, "InvalidAnnotation", message).Kept, message)
	}
}

func TestFormerProofs(t *testing.T) {
	proof := strings.Repeat("aZ09_-", 100)
	for message, want := range map[string]string{
		"x; the opt-in is recorded (proof " + proof + ")":           proof,
		"x (proof a); the opt-in is recorded (proof " + proof + ")": proof,
		"x; the opt-in is recorded (proof " + proof + ").":          "",
		"x (proof a/b)":                    "",
		"x (proof )":                       "",
		"x (leaf sha256:" + someLeaf + ")": "",
		"x; the opt-in is recorded (proof " + strings.Repeat("a", 1001) + ")": "",
		strings.Repeat("x", api.MaxMessage) + " (proof short)":                "",
	} {
		assert.Equal(t, want, former(metav1.ConditionTrue, api.ReasonPodKeys, message).Proof, "%.200s", message)
	}
}

func TestFormerPodKeys(t *testing.T) {
	const names = "each pod makes its key, and gets a certificate for "
	for message, want := range map[string][]string{
		names + "web.shop.svc, web.shop.svc.cluster.local": {"web.shop.svc", "web.shop.svc.cluster.local"},
		names + `*.web.shop.svc, web.shop.svc and 3 more; kept from before, and renewed until deleted: ["a"]; the opt-in is recorded (proof x)`: {"*.web.shop.svc", "web.shop.svc"},
		names + "web.shop.svc; namespace shop no longer has label x":                                                                            {"web.shop.svc"},
		"x": nil,
	} {
		assert.ElementsMatch(t, want, former(metav1.ConditionTrue, api.ReasonPodKeys, message).Names, message)
		assert.Empty(t, former(metav1.ConditionTrue, "Issued", message).Names, message)
	}
}

func TestFormerServing(t *testing.T) {
	read := func(message string) (Serving, bool) {
		return ServingOf(with(metav1.Condition{Type: api.ConditionServing, Message: message}))
	}
	message := "text (leaf sha256:" + someLeaf + " since 2026-05-01T12:00:01Z)"
	got, ok := read(message)
	assert.True(t, ok)
	assert.Equal(t, Serving{Leaf: someLeaf, Since: time.Date(2026, 5, 1, 12, 0, 1, 0, time.UTC)}, got)
	for _, message := range []string{
		"", "text", message + ".", "(leaf sha256:" + someLeaf + ")", "(leaf sha256:" + someLeaf + " since yesterday)",
		strings.TrimSuffix(message, ")"), "leaf sha256:" + someLeaf + " since 2026-05-01T12:00:01Z)",
		"(" + someLeaf + " since 2026-05-01T12:00:01Z)",
		"(leaf sha256:0a since 2026-05-01T12:00:00Z)", "(leaf sha256:" + someLeaf + " since 2026-05-01T12:00:00Z, x)",
	} {
		_, ok := read(message)
		assert.False(t, ok, message)
	}
}

func TestFormerFlags(t *testing.T) {
	read := func(message string) Flags {
		return FlagsOf(with(metav1.Condition{Type: api.ConditionFlags, Message: message}))
	}
	at := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	assert.Equal(t, Flags{
		{"0c0c0c0c0c0c0c0c", VerdictWithheld, "Deployment/web", "app", at, true},
		{"0a0a0a0a0a0a0a0a", VerdictCleared, "StatefulSet/db", "pg", at.Add(time.Hour), false},
	}, read("said (so) (withheld 0c0c0c0c0c0c0c0c Deployment/web/app since 2026-05-01T12:00:00Z on trial, cleared 0a0a0a0a0a0a0a0a StatefulSet/db/pg since 2026-05-01T13:00:00Z)"))
	for _, fact := range []string{
		"", "withheld", "withheld 0a Deployment/web/app since 2026-05-01T12:00:00Z", "kept 0a0a0a0a0a0a0a0a Deployment/web/app since 2026-05-01T12:00:00Z",
		"withheld 0A0A0A0A0A0A0A0A Deployment/web/app since 2026-05-01T12:00:00Z", "withheld 0a0a0a0a0a0a0a0a web since 2026-05-01T12:00:00Z",
		"withheld 0a0a0a0a0a0a0a0a Deployment/web/app since noon", "withheld 0a0a0a0a0a0a0a0a Deployment/web/app",
	} {
		assert.Empty(t, read("said ("+fact+")"), fact)
	}
}
