package signer

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

// waitingScene is a Service whose name www.apps.example.com has waited for the older root,
// which has just gone, and what its condition said.
func waitingScene(t *testing.T, name string) *scene {
	l := widened(t)
	w := newScene(l.At(epoch, 2), nil, service(name, api.AnnotationSecretName, "web-tls", api.AnnotationExtraDNSNames, "www.apps.example.com"))
	w.limits = permissive()
	s, d := w.decide()
	w.apply(t, s, d, plainSign())
	s, d = w.decide()
	ready := readyOf(t, s, d, w.services[0])
	require.Equal(t, string(reasonWaiting), ready.Reason)
	w.services[0].Status.Conditions = []metav1.Condition{ready}
	w.ca.Anchors = l.Roots[1:]
	return w
}

// Names that waited for a root are not issued for all Services in the same moment.
func TestNamesThatWaitedAreSpread(t *testing.T) {
	window := pki.Window{From: epoch, Until: epoch.Add(10 * time.Minute)}
	minutes := map[int]bool{}
	for i := range 40 {
		w := waitingScene(t, fmt.Sprint("web-", i))
		s := w.situation()
		s.Widened = window
		at := window.AtOf(s.Secret.Leaf.Sum)
		minutes[int(at.Sub(epoch)/time.Minute)] = true

		d := Decide(s)
		assert.Equal(t, "Nothing", d.Action.String())
		assert.Equal(t, at, d.NextAt)
		settlement := Settle(s, d, Outcome{})
		assert.Empty(t, settlement.Services, "they still wait, and say so")
		assert.Equal(t, s.Secret.Leaf.Fingerprint, settlement.Leaf)
		assert.Equal(t, at, settlement.NextAt)

		s.Now = at
		d = Decide(s)
		assert.Equal(t, reasonNames, d.Reason)
		assert.Zero(t, d.Tokens, "it is not the namespace's doing")
	}
	assert.Greater(t, len(minutes), 6, "of ten minutes, few are empty")
}

func TestNamesThatAreAskedForAnewDoNotWait(t *testing.T) {
	for name, change := range map[string]func(w *scene){
		"another name is asked for": func(w *scene) {
			w.services[0].Annotations[api.AnnotationExtraDNSNames] = "www.apps.example.com,api.apps.example.com"
		},
		"another Service joins": func(w *scene) { w.services = append(w.services, service("api")) },
		"the Service says nothing of the certificate": func(w *scene) {
			w.services[0].Status.Conditions = nil
		},
		"another certificate was written into the Secret": func(w *scene) {
			w.secret.Data = managed(issue(t, w.ca, wantedBy(service("web")), epoch)).Data
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := waitingScene(t, "web")
			change(w)
			s := w.situation()
			s.Widened = pki.Window{From: epoch.Add(time.Hour), Until: epoch.Add(time.Hour)}
			d := Decide(s)
			assert.Equal(t, reasonNames, d.Reason)
			assert.Equal(t, 1, d.Tokens)
		})
	}
}
