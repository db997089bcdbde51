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

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
)

// terminatingScene is a Secret that a finalizer has held for a minute.
func terminatingScene(t *testing.T, finalizers ...string) *scene {
	web := service("web")
	w := newScene(testCA(t), managed(issueBy(t, testCA(t), wantedBy(web), epoch), web), web)
	deleted := metav1.NewTime(epoch)
	w.secret.DeletionTimestamp, w.secret.Finalizers, w.now = &deleted, finalizers, epoch.Add(time.Minute)
	return w
}

func TestASecretHeldByAFinalizerIsReported(t *testing.T) {
	const message = `Secret "web-tls": it was deleted at 2026-03-01T12:00:00Z and still exists because of its finalizers ["example.com/keep"]; its certificate is not renewed. Have the controllers that added them finish, or remove them; if a Service still requests the Secret, it is then created again`
	for name, c := range map[string]struct {
		change func(w *scene)
		want   map[string]string
	}{
		"asked for":             {func(*scene) {}, map[string]string{"web": "False SecretTerminating: " + message}},
		"expired":               {func(w *scene) { w.now = epoch.Add(100 * day) }, map[string]string{"web": "False SecretTerminating: " + message}},
		"without a certificate": {func(w *scene) { w.secret.Data = nil }, map[string]string{"web": "False SecretTerminating: " + message}},
		"the CA is lost":        {func(w *scene) { w.caErr = caError("CALost") }, map[string]string{"web": "False SecretTerminating: " + message}},
		"the CA is being read":  {func(w *scene) { w.caErr = caError(reasonPending) }, map[string]string{}},
		"retained":              {func(w *scene) { w.services[0] = service("web", api.AnnotationSecretName, "-") }, map[string]string{"web": "False SecretTerminating: " + message}},
		"what is asked for is not allowed": {func(w *scene) {
			w.services = append(w.services, service("api", api.AnnotationDuration, "abc"))
			w.secret.OwnerReferences = ownerReferences(nil, w.services)
		}, map[string]string{
			"web": "False SecretTerminating: " + message,
			"api": `False InvalidAnnotation: servingcert.dev/duration: "abc": not a valid duration: must be a Go duration between 1h and 2160h, such as 720h; the certificate in Secret "web-tls" is not renewed: the Secret is being deleted`,
		}},
		"a moment ago":           {func(w *scene) { w.now = epoch.Add(terminatingGrace - time.Second) }, map[string]string{}},
		"the namespace goes too": {func(w *scene) { w.terminating = true }, map[string]string{}},
	} {
		t.Run(name, func(t *testing.T) {
			w := terminatingScene(t, "example.com/keep")
			c.change(w)
			s, d := w.decide()
			assert.Equal(t, Nothing, d.Action, "a Secret that is being deleted is never written")
			assert.Equal(t, c.want, said(s, d))
		})
	}
}

// The deletion of a Secret that takes a moment is not reported, and the Secret is reconciled again
// without a change.
func TestABriefDeletionIsNotReported(t *testing.T) {
	w := terminatingScene(t, metav1.FinalizerDeleteDependents)
	w.now = epoch.Add(time.Second)
	s, d := w.decide()
	update := StatusUpdateOf(s, d, Outcome{})
	assert.Empty(t, update.Services)
	assert.Equal(t, epoch.Add(terminatingGrace), update.NextAt.UTC())
	w.secret = nil
	_, d = w.decide()
	assert.Equal(t, Create, d.Action)
}

// The condition lets a Service without the opt-in share the Secret, and causes one event. Once
// the Secret is deleted, it is created again as a missing one.
func TestWhatFollowsATerminatingSecret(t *testing.T) {
	w := terminatingScene(t, "example.com/keep")
	web := w.services[0]
	web.Status.Conditions = state.Say(metav1.Condition{Type: api.ConditionReady, Status: metav1.ConditionTrue, Reason: "Issued"}, state.Ready{Secret: "web-tls"}).Both()
	w.notOptedIn = true
	s, d := w.decide()
	update := StatusUpdateOf(s, d, Outcome{})
	require.Len(t, update.Services, 1)
	require.NotNil(t, update.Services[0].NotReady)
	assert.Equal(t, "SecretTerminating", update.Services[0].NotReady.Reason)
	assert.Empty(t, update.Events, "the condition's is the only one")
	assert.Equal(t, reasonTerminating, update.Services[0].Failure)

	web.Status.Conditions = update.Services[0].Ready.Both()
	s, d = w.decide()
	assert.Equal(t, web.Status.Conditions, readyOf(t, s, d, web).Both(), "the same, so that it is not written again")

	w.notOptedIn, w.secret = false, nil
	_, d = w.decide()
	assert.Equal(t, []any{Create, reasonMissing}, []any{d.Action, d.Reason})
}

// The message quotes a bounded number of finalizers.
func TestManyFinalizers(t *testing.T) {
	var finalizers []string
	for i := range 5000 {
		finalizers = append(finalizers, fmt.Sprintf("example.com/%d%s", i, strings.Repeat("x", 200)))
	}
	finalizers[1] = strings.Repeat("y", 10000) + "\x1b[31m\n"
	finalizers[2] = "\x1b[31m\u202e\n"
	w := terminatingScene(t, finalizers...)
	s, d := w.decide()
	message := readyOf(t, s, d, w.services[0]).Message
	assert.Contains(t, message, ` and 4996 more; its certificate`)
	assert.Contains(t, message, `"\x1b[31m\u202e\n"`)
	assert.Less(t, len(message), 2048)
	f := FactsOf(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Finalizers: finalizers, UID: types.UID("u")}}, api.DefaultInstance)
	assert.Empty(t, f.Finalizers, "of a Secret that lives, none are remembered")
}
