package signer

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

// said renders what Conditions says of each Service.
func said(s Situation, d Decision) map[string]string {
	out := map[string]string{}
	for _, change := range Conditions(s, d) {
		text := "none"
		if c := change.Ready; c != nil {
			text = fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
		}
		out[change.Service.Name] = text
	}
	return out
}

func TestConditions(t *testing.T) {
	ca, web := testCA(t), service("web")
	issued := issue(t, ca, wantedBy(web), epoch)
	leaf := "leaf sha256:" + pki.Fingerprint(issued.Leaf)
	ready := []metav1.Condition{{Type: api.ConditionReady, Status: metav1.ConditionTrue, Reason: "Issued"}}
	deleted := metav1.NewTime(epoch)
	invalid := `servingcert.dev/duration: "abc": no duration: must be a Go duration between 1h and 2160h, such as 720h`

	for name, c := range map[string]struct {
		change func(w *scene)
		want   map[string]string // prefixes
	}{
		"all is well": {func(*scene) {}, map[string]string{
			"web": `True Issued: Secret "web-tls": web.shop.svc, web.shop.svc.cluster.local (request ` + wantedBy(web).Hash() + ", " + leaf + ")"}},
		"Service being deleted": {func(w *scene) { w.services[0].DeletionTimestamp = &deleted }, map[string]string{}},
		"not allowed, and no Secret": {func(w *scene) { w.secret, w.services[0] = nil, service("web", api.AnnotationDuration, "abc") },
			map[string]string{"web": "False InvalidAnnotation: " + invalid}},
		"not allowed, and a Secret from before": {func(w *scene) { w.services[0] = service("web", api.AnnotationDuration, "abc") },
			map[string]string{"web": "False InvalidAnnotation: " + invalid + `; the certificate in Secret "web-tls" is kept and renewed as it was`}},
		"somebody else's Secret": {func(w *scene) { w.secret.Labels, w.secret.OwnerReferences = nil, nil },
			map[string]string{"web": `False SecretConflict: Secret "web-tls" exists and is not this signer's: it does not carry this signer's label; it is left alone. Delete or rename it, or ask for another name`}},
		"annotation removed": {func(w *scene) { w.services[0] = service("web", api.AnnotationSecretName, "-") },
			map[string]string{"web": `True Retained: Secret "web-tls": not asked for any more; kept, and renewed until it is deleted (` + leaf + ")"}},
		"annotation removed, and no Secret": {func(w *scene) { w.secret, w.services[0] = nil, service("web", api.AnnotationSecretName, "-") },
			map[string]string{}},
		"another Secret asked for": {func(w *scene) { w.services[0] = service("web", api.AnnotationSecretName, "new-tls") },
			map[string]string{}}, // that one decides
		"namespace opted out": {func(w *scene) { w.notOptedIn = true },
			map[string]string{"web": `True Retained: Secret "web-tls": namespace "shop" is not labelled servingcert.dev/inject=enabled any more; kept`}},
		"namespace opted out, and no Secret": {func(w *scene) { w.notOptedIn, w.secret = true, nil }, map[string]string{"web": "none"}},
		"a newcomer that contradicts": {func(w *scene) {
			w.services = append(w.services, service("api", api.AnnotationDuration, "3h"))
			w.services[1].CreationTimestamp = metav1.NewTime(epoch)
		}, map[string]string{
			"web": "True Issued: ",
			"api": `False InvalidAnnotation: servingcert.dev/duration: "3h": Secret "web-tls" is shared with Service "web", which is older and has 720h`}},
		"CA lost, certificate there and said":     {func(w *scene) { w.caErr, w.services[0].Status.Conditions = caError("CALost"), ready }, map[string]string{}},
		"CA lost, certificate there and not said": {func(w *scene) { w.caErr = caError("CALost") }, map[string]string{"web": "False CALost: CALost: for a test"}},
		"CA lost, no certificate": {func(w *scene) { w.caErr, w.secret, w.services[0].Status.Conditions = caError("CALost"), nil, ready },
			map[string]string{"web": "False CALost: CALost: for a test"}},
		"CA lost, certificate expired": {func(w *scene) {
			w.caErr, w.services[0].Status.Conditions, w.now = caError("CALost"), ready, epoch.Add(31*day)
		}, map[string]string{"web": "False CALost: CALost: for a test"}},
		"CA about to be known": {func(w *scene) { w.caErr, w.secret = caError(ReasonPending), nil }, map[string]string{}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newScene(ca, managed(issued, web), web.DeepCopy())
			c.change(w)
			got := said(w.decide())
			require.Len(t, got, len(c.want), "%v", got)
			for name, want := range c.want {
				assert.Truef(t, strings.HasPrefix(got[name], want), "got  %s\nwant %s", got[name], want)
			}
		})
	}
}

func TestConditionNamesWhatIsKept(t *testing.T) {
	ca, web := testCA(t), service("web")
	issued := issue(t, ca, wantedBy(web), epoch)
	s, d := newScene(ca, managed(issued, web), web).decide()
	s.Kept[web.UID] = []string{"old-tls"}
	message := said(s, d)["web"]
	assert.Contains(t, message, `; kept from before and renewed until deleted: ["old-tls"]`)
	web.Status.Conditions = []metav1.Condition{{Type: api.ConditionReady, Status: metav1.ConditionTrue, Message: strings.TrimPrefix(message, "True Issued: ")}}
	leaf, ok := api.LeafOf(web)
	assert.True(t, ok)
	assert.Equal(t, pki.Fingerprint(issued.Leaf), leaf)
}

// A condition that holds what changes by itself would be written again and
// again, and every Service update goes to kube-proxy on every node.
func TestConditionsSayNothingThatTimeChanges(t *testing.T) {
	ca, web := testCA(t), service("web")
	for _, change := range []func(w *scene){
		func(*scene) {},
		func(w *scene) { w.services[0] = service("web", api.AnnotationSecretName, "-") },
		func(w *scene) { w.services[0] = service("web", api.AnnotationDuration, "abc") },
		func(w *scene) { w.secret.Labels, w.secret.OwnerReferences = nil, nil },
	} {
		w := newScene(ca, managed(issue(t, ca, wantedBy(web), epoch), web), web.DeepCopy())
		change(w)
		before := said(w.decide())
		require.NotEmpty(t, before)
		w.now = epoch.Add(5 * day)
		assert.Equal(t, before, said(w.decide()))
	}
}

func TestConditionPatch(t *testing.T) {
	earlier, now := metav1.NewTime(epoch.Add(-day).Truncate(time.Second)), epoch
	of := func(status metav1.ConditionStatus, reason, message string) *metav1.Condition {
		return &metav1.Condition{Type: api.ConditionReady, Status: status, Reason: reason, Message: message, LastTransitionTime: earlier}
	}
	yes, no := metav1.ConditionTrue, metav1.ConditionFalse
	since := func(c *metav1.Condition, at time.Time) *metav1.Condition {
		out := *c
		out.LastTransitionTime = metav1.NewTime(at.Truncate(time.Second))
		return &out
	}
	for name, c := range map[string]struct {
		have, want *metav1.Condition
		result     *metav1.Condition
		writes     bool
	}{
		"none, none wanted":         {nil, nil, nil, false},
		"the same":                  {of(yes, "Issued", "m"), since(of(yes, "Issued", "m"), now), of(yes, "Issued", "m"), false},
		"a first":                   {nil, of(yes, "Issued", "m"), since(of(yes, "Issued", "m"), now), true},
		"another status and reason": {of(no, "CALost", "m"), of(yes, "Issued", "m"), since(of(yes, "Issued", "m"), now), true},
		"another status alone":      {of(no, "R", "m"), of(yes, "R", "m"), since(of(yes, "R", "m"), now), true},
		"another message":           {of(yes, "Issued", "m"), of(yes, "Issued", "n"), of(yes, "Issued", "n"), true},
		"another reason":            {of(no, "CALost", "m"), of(no, "CACorrupt", "m"), of(no, "CACorrupt", "m"), true},
		"none wanted any more":      {of(yes, "Issued", "m"), nil, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			patch, err := StatusPatch("uid-of-web", c.have, c.want, nil, now)
			require.NoError(t, err)
			require.Equal(t, c.writes, patch != nil)
			svc := service("web")
			other := metav1.Condition{Type: api.ConditionServing, Status: yes, Reason: "Serving", LastTransitionTime: earlier}
			svc.Status.Conditions = []metav1.Condition{other}
			if c.have != nil {
				svc.Status.Conditions = append(svc.Status.Conditions, *c.have)
			}
			if patch != nil {
				svc = patchedService(t, svc, patch)
			}
			assert.Equal(t, types.UID("uid-of-web"), svc.UID)
			assert.Equal(t, &other, normal(api.Condition(svc, api.ConditionServing)), "the others' conditions stay")
			assert.Equal(t, normal(c.result), normal(api.Condition(svc, api.ConditionReady)))
		})
	}
}

func normal(c *metav1.Condition) *metav1.Condition {
	if c == nil {
		return nil
	}
	out := *c
	out.LastTransitionTime = metav1.NewTime(c.LastTransitionTime.UTC())
	return &out
}

// patchedService applies a strategic merge patch as the API server does.
func patchedService(t *testing.T, svc *corev1.Service, patch []byte) *corev1.Service {
	document, err := json.Marshal(svc)
	require.NoError(t, err)
	merged, err := strategicpatch.StrategicMergePatch(document, patch, corev1.Service{})
	require.NoError(t, err)
	out := &corev1.Service{}
	require.NoError(t, json.Unmarshal(merged, out))
	return out
}

func TestFewNamesAreRepeated(t *testing.T) {
	assert.Equal(t, "a, b, c, d", describeNames([]string{"a", "b", "c", "d"}, nil))
	assert.Equal(t, "a, b, c, d and 2 more", describeNames([]string{"a", "b", "c", "d", "e", "f"}, nil))
}
