package controller

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/client-go/tools/events"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/rotator/serving"
	"github.com/servingcert/servingcert/test/rotatortest"
)

func TestEventsOfOldCertificates(t *testing.T) {
	note := func(s serving.StaleWorkload) string {
		recorder := events.NewFakeRecorder(1)
		eventWriter{recorder}.servesOld("shop", s)
		select {
		case e := <-recorder.Events:
			return e
		default:
			return ""
		}
	}
	web := pods.Workload{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
	of := func(w pods.Workload, r api.OnRotate, readsOtherFiles bool) serving.StaleWorkload {
		return serving.StaleWorkload{
			Workload: w, Key: pods.SecretKey("web-tls"), Leaf: rotatortest.Leaf(2), Since: rotatortest.Noon, OnRotate: r, ReadsOtherFiles: readsOtherFiles,
			Pods: 2, Pod: "web-a", PodUID: "uid-of-web-a", Service: "web", ServiceUID: "uid-of-web",
		}
	}
	const found = "Warning ServesOldCertificate 2 pods (web-a among them) serve an older certificate than Secret web-tls has held since 2026-05-01 12:00:00 UTC; "
	assert.Equal(t, found+"it does not reload its files: restart it: kubectl rollout restart deployment/web -n shop; annotate its pod template servingcert.dev/on-rotate: restart to have that done automatically",
		note(of(web, api.OnRotateReload, false)))
	assert.Equal(t, found+"it does not reload its files: recreate it", note(of(pods.Workload{}, api.OnRotateReload, false)))
	assert.Equal(t, found+"check whether the files on node cp-1 match the Secret, then restart the static pod on the node",
		note(of(pods.Workload{APIVersion: "v1", Kind: "Node", Name: "cp-1"}, api.OnRotateReload, false)))
	assert.Contains(t, note(of(web, api.OnRotateRestart, true)), "it is newer than that, so it reads the certificate from other files")
	assert.Empty(t, note(of(web, api.OnRotateRestart, false)), "the event about the restart reports it")
	assert.Empty(t, note(of(web, api.OnRotateNone, false)))
	assert.Empty(t, note(of(web, api.OnRotateNone, true)))
}
