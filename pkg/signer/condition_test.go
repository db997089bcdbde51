package signer

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer/issue"
)

// conditions are the statuses of the Services if nothing is written to the Secret.
func conditions(s Situation, d Decision) []ServiceStatus {
	return StatusUpdateOf(s, d, Outcome{}).Services
}

// readyOf returns the desired condition of the Service.
func readyOf(t require.TestingT, s Situation, d Decision, svc *corev1.Service) *state.Condition {
	for _, status := range conditions(s, d) {
		if status.Service.UID == svc.UID {
			return status.Ready
		}
	}
	require.Fail(t, "the Service gets no condition")
	return nil
}

// said renders the desired condition of each Service.
func said(s Situation, d Decision) map[string]string {
	out := map[string]string{}
	for _, status := range conditions(s, d) {
		text := "none"
		if c := status.Ready; c != nil {
			text = fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
		}
		out[status.Service.Name] = text
	}
	return out
}

func TestConditions(t *testing.T) {
	ca, web := testCA(t), service("web")
	issued := issueBy(t, ca, wantedBy(web), epoch)
	leaf := "leaf sha256:" + pki.Fingerprint(issued.Leaf)
	ready := []metav1.Condition{{Type: api.ConditionReady, Status: metav1.ConditionTrue, Reason: "Issued"}}
	deleted := metav1.NewTime(epoch)
	invalid := `servingcert.dev/duration: "abc": not a valid duration: must be a Go duration between 1h and 2160h, such as 720h`

	for name, c := range map[string]struct {
		change func(w *scene)
		want   map[string]string // prefixes
	}{
		"all is well": {func(*scene) {}, map[string]string{
			"web": `True Issued: Secret "web-tls": web.shop.svc, web.shop.svc.cluster.local (` + leaf + ")"}},
		"Service being deleted": {func(w *scene) { w.services[0].DeletionTimestamp = &deleted }, map[string]string{}},
		"not allowed, and no Secret": {func(w *scene) { w.secret, w.services[0] = nil, service("web", api.AnnotationDuration, "abc") },
			map[string]string{"web": "False InvalidAnnotation: " + invalid}},
		"not allowed, and a Secret from before": {func(w *scene) { w.services[0] = service("web", api.AnnotationDuration, "abc") },
			map[string]string{"web": "False InvalidAnnotation: " + invalid + `; the certificate in Secret "web-tls" is kept, and renewed without changes`}},
		"somebody else's Secret": {func(w *scene) { w.secret.Labels, w.secret.OwnerReferences = nil, nil },
			map[string]string{"web": `False SecretConflict: Secret "web-tls" exists and is not managed by this signer: it does not have this signer's label. It is left unchanged: set annotation servingcert.dev/issuer: external to keep its issuer, request another name, or delete it`}},
		"annotation removed": {func(w *scene) { w.services[0] = service("web", api.AnnotationSecretName, "-") },
			map[string]string{"web": `True Retained: Secret "web-tls": no longer requested; kept, and renewed until it is deleted (` + leaf + ")"}},
		"annotation removed, and no Secret": {func(w *scene) { w.secret, w.services[0] = nil, service("web", api.AnnotationSecretName, "-") },
			map[string]string{}},
		"another Secret asked for": {func(w *scene) { w.services[0] = service("web", api.AnnotationSecretName, "new-tls") },
			map[string]string{}}, // that one decides
		"namespace opted out": {func(w *scene) {
			s, d := w.decide()
			w.services[0].Status.Conditions = readyOf(t, s, d, w.services[0]).Both()
			w.notOptedIn = true
		},
			map[string]string{"web": `True Retained: Secret "web-tls": namespace "shop" no longer has label servingcert.dev/inject=enabled; kept`}},
		"namespace opted out, and no Secret": {func(w *scene) { w.notOptedIn, w.secret = true, nil }, map[string]string{"web": "none"}},
		"a newcomer that contradicts": {func(w *scene) {
			w.services = append(w.services, service("api", api.AnnotationDuration, "3h"))
			w.services[1].CreationTimestamp = metav1.NewTime(epoch)
		}, map[string]string{
			"web": "True Issued: ",
			"api": `False InvalidAnnotation: servingcert.dev/duration: "3h": must be 720h, because Secret "web-tls" is shared with the older Service "web"`}},
		"CA lost, certificate there and said":     {func(w *scene) { w.caErr, w.services[0].Status.Conditions = caError("CALost"), ready }, map[string]string{}},
		"CA lost, certificate there and not said": {func(w *scene) { w.caErr = caError("CALost") }, map[string]string{"web": "False CALost: CALost: for a test"}},
		"CA lost, no certificate": {func(w *scene) { w.caErr, w.secret, w.services[0].Status.Conditions = caError("CALost"), nil, ready },
			map[string]string{"web": "False CALost: CALost: for a test"}},
		"CA lost, certificate expired": {func(w *scene) {
			w.caErr, w.services[0].Status.Conditions, w.now = caError("CALost"), ready, epoch.Add(31*day)
		}, map[string]string{"web": "False CALost: CALost: for a test"}},
		"CA about to be known": {func(w *scene) { w.caErr, w.secret = caError(reasonPending), nil }, map[string]string{}},
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
	issued := issueBy(t, ca, wantedBy(web), epoch)
	s, d := newScene(ca, managed(issued, web), web).decide()
	s.Kept[web.UID] = Kept{Names: []string{"old-tls"}, All: 1}
	assert.Contains(t, said(s, d)["web"], `; kept from before, and renewed until deleted: "old-tls"`)
	web.Status.Conditions = readyOf(t, s, d, web).Both()
	assert.Equal(t, state.Ready{Secret: "web-tls", Request: wantedBy(web).Hash(), Leaf: pki.Fingerprint(issued.Leaf), Kept: []string{"old-tls"}}, state.ReadyOf(web))
}

// TestRefusedServicesNameTheCertificateThatTheyKeep, so that the rotator compares pods with it.
func TestRefusedServicesNameTheCertificateThatTheyKeep(t *testing.T) {
	ca, web := testCA(t), service("web")
	ours, theirs := issueBy(t, ca, wantedBy(web), epoch), issueBy(t, foreignCA(t), wantedBy(web), epoch)
	for name, tt := range map[string]struct {
		change func(w *scene)
		want   string
	}{
		"it keeps one":                   {func(*scene) {}, pki.Fingerprint(ours.Leaf)},
		"nothing is signed":              {func(w *scene) { w.caErr = caError("CALost") }, pki.Fingerprint(ours.Leaf)},
		"beside a Service that is valid": {func(w *scene) { w.services = append(w.services, service("api")) }, pki.Fingerprint(ours.Leaf)},
		"it has expired":                 {func(w *scene) { w.now, w.caErr = ours.Leaf.NotAfter, caError("CALost") }, ""},
		"there is none":                  {func(w *scene) { w.secret = nil }, ""},
		"it is another's": {func(w *scene) {
			w.secret.Data[corev1.TLSCertKey], w.secret.Data[corev1.TLSPrivateKeyKey] = theirs.CertPEM, theirs.KeyPEM
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			refused := service("web", api.AnnotationDuration, "abc")
			w := newScene(ca, managed(ours, refused, service("api")), refused)
			tt.change(w)
			s, d := w.decide()
			ready := readyOf(t, s, d, refused)
			require.Equal(t, string(reasonInvalid), ready.Reason)
			refused.Status.Conditions = ready.Both()
			assert.Equal(t, tt.want, state.ReadyOf(refused).Leaf)
		})
	}
}

// TestConditionsAreShort: the size of a condition is bounded, for any kept Secrets and any error
// of an API server or a remote CA. It has the data for other processes.
func TestConditionsAreShort(t *testing.T) {
	ca, web := testCA(t), service("web")
	issued := issueBy(t, ca, wantedBy(web), epoch)
	s, d := newScene(ca, managed(issued, web), web).decide()
	kept := Kept{All: 5000}
	for i := range kept.All {
		kept.Names = append(kept.Names, fmt.Sprintf("old-%04d", 4999-i))
	}
	s.Kept[web.UID] = kept
	message := strings.TrimPrefix(said(s, d)["web"], "True Issued: ")
	assert.Less(t, len(message), 1000)
	assert.Contains(t, message, `"old-0002", "old-0003" and 4996 more`)
	web.Status.Conditions = readyOf(t, s, d, web).Both()
	read := state.ReadyOf(web)
	assert.Equal(t, pki.Fingerprint(issued.Leaf), read.Leaf)
	assert.Len(t, read.Kept, api.MaxKept)
	assert.True(t, read.Has("old-0063"))

	refused := StatusUpdateOf(s, Decision{Action: Create, Ownership: Ownership{Participants: []*corev1.Service{service("api")}}}, Outcome{Err: errors.New(strings.Repeat("no ", 1<<20))})
	require.Len(t, refused.Services, 1)
	assert.Less(t, len(refused.Services[0].Ready.Message), api.MaxMessage)
}

// Of thousands of names only those that a message shows are quoted.
func TestFewNamesAreQuoted(t *testing.T) {
	names := make([]string, 5000)
	for i := range names {
		names[i] = fmt.Sprintf("old-%04d", i)
	}
	assert.Less(t, testing.AllocsPerRun(10, func() { quoted(names, len(names)) }), 20.0)
}

// A condition does not change with time: each update of a Service is sent to kube-proxy on every
// node.
func TestConditionsSayNothingThatTimeChanges(t *testing.T) {
	ca, web := testCA(t), service("web")
	for _, change := range []func(w *scene){
		func(*scene) {},
		func(w *scene) { w.services[0] = service("web", api.AnnotationSecretName, "-") },
		func(w *scene) { w.services[0] = service("web", api.AnnotationDuration, "abc") },
		func(w *scene) { w.secret.Labels, w.secret.OwnerReferences = nil, nil },
	} {
		w := newScene(ca, managed(issueBy(t, ca, wantedBy(web), epoch), web), web.DeepCopy())
		change(w)
		before := said(w.decide())
		require.NotEmpty(t, before)
		w.now = epoch.Add(5 * day)
		assert.Equal(t, before, said(w.decide()))
	}
}

func TestFewNamesAreRepeated(t *testing.T) {
	assert.Equal(t, "a, b, c, d", describeNames([]string{"a", "b", "c", "d"}, nil))
	assert.Equal(t, "a, b, c, d and 2 more", describeNames([]string{"a", "b", "c", "d", "e", "f"}, nil))
}

// A message that differs from the present one only in numbers, such as times, ports and counts, is
// not written.
func TestARepeatedFailureIsReportedOnce(t *testing.T) {
	ca, web := testCA(t), service("web")
	failed := func(w *scene, err error) *state.Condition {
		s, d := w.decide()
		for _, status := range StatusUpdateOf(s, d, Outcome{Err: err}).Services {
			return status.Ready
		}
		require.Fail(t, "no condition")
		return nil
	}
	const first = "create Secret: exceeded quota: tls, used: secrets=7 at 2026-03-01T12:00:00Z"
	w := newScene(ca, nil, web)
	before := failed(w, errors.New(first))
	assert.Equal(t, first, before.Message)
	w.services[0].Status.Conditions = before.Both()
	assert.Equal(t, before, failed(w, errors.New("create Secret: exceeded quota: tls, used: secrets=12 at 2026-03-01T12:01:00Z")))

	other := failed(w, errors.New("create Secret: exceeded quota: all, used: secrets=7 at 2026-03-01T12:00:00Z"))
	assert.NotEqual(t, before, other, "other words")
	assert.NotEqual(t, before, failed(w, &issue.RefusedError{Err: errors.New(first)}), "another reason")

	w.services[0].Annotations[api.AnnotationDuration] = "5h"
	w.caErr = caError("CALost")
	s, d := w.decide()
	assert.Equal(t, "CALost", readyOf(t, s, d, w.services[0]).Reason)
	w.caErr, w.services[0].Annotations[api.AnnotationDuration] = nil, "9999h"
	s, d = w.decide()
	w.services[0].Status.Conditions = readyOf(t, s, d, w.services[0]).Both()
	w.services[0].Annotations[api.AnnotationDuration] = "8888h"
	s, d = w.decide()
	assert.Contains(t, readyOf(t, s, d, w.services[0]).Message, "8888h", "what a user wrote is repeated as it is")
}

// The rotator reads in conditions which Secret they are about.
func TestConditionsNameTheirSecret(t *testing.T) {
	situation := Situation{Key: types.NamespacedName{Namespace: "shop", Name: "web-tls"}}
	for _, asks := range []map[string]string{nil, {api.AnnotationSecretName: "web-tls"}} { // the annotation went, or the namespace's label
		svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: asks}}
		svc.Status.Conditions = applied{Situation: situation, d: Decision{Retained: true}, leaf: "0a"}.memberCondition(svc).Both()
		svc.Annotations = nil
		got, ok := state.PartIn(svc)
		assert.True(t, ok)
		assert.Equal(t, "web-tls", got)
	}
}
