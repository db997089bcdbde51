package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func deployment(name string) pods.Workload {
	return pods.Workload{APIVersion: "apps/v1", Kind: "Deployment", Name: name}
}

// service asks for Secret NAME-tls, which holds leaf "new" since noon.
func service(name string, status metav1.ConditionStatus, reason, message string) serviceStatus {
	since := noon
	return serviceStatus{Namespace: "shop", Name: name, Secret: name + "-tls", Leaf: "new", Serving: &servingStatus{
		Status: string(status), Reason: reason, Message: message, Leaf: "new", Since: &since, Changed: noon.Add(time.Minute),
	}}
}

// mounter is a pod of a Deployment that is older than the certificate.
func mounter(workload string, onRotate api.OnRotate, secrets ...string) consumer {
	return consumer{namespace: "shop", pod: workload + "-1", workload: deployment(workload), secrets: secrets, onRotate: onRotate, created: noon.Add(-time.Hour)}
}

func TestBreaking(t *testing.T) {
	services := []serviceStatus{
		service("web", metav1.ConditionTrue, api.ServingCurrent, ""),
		service("old", metav1.ConditionFalse, api.ServingStale, "an older certificate is still served by Deployment legacy, Deployment legacy-2: restart them"),
		service("plain", metav1.ConditionFalse, api.ServingPlaintext, ""),
		{Namespace: "shop", Name: "new", Secret: "new-tls", Leaf: "new"},
	}
	young := mounter("young", api.OnRotateReload, "web-tls")
	young.created = noon.Add(time.Second)
	undoable := consumer{namespace: "shop", pod: "undoable", secrets: []string{"web-tls"}, onRotate: api.OnRotateRestart, created: noon} // nothing makes it anew
	bare := consumer{namespace: "shop", pod: "bare", secrets: []string{"new-tls"}}
	got := breaking([]consumer{
		mounter("web", api.OnRotateReload, "web-tls"),
		young,
		mounter("legacy", api.OnRotateReload, "old-tls"),
		mounter("legacy", api.OnRotateReload, "old-tls"),
		mounter("leg", api.OnRotateReload, "old-tls"), // whose name others begin with
		mounter("rolled", api.OnRotateRestart, "old-tls"),
		mounter("both", api.OnRotateReload, "web-tls", "plain-tls"),
		mounter("client", api.OnRotateReload),
		bare,
		undoable,
	}, services)
	assert.Equal(t, `  workloads that serve an older certificate already, and break until somebody restarts them: 1: shop Deployment/legacy
  workloads that nobody has seen reload a certificate, and may break until somebody restarts them: 5: shop Deployment/both, shop Deployment/leg, shop Deployment/young, shop Pod/bare, shop Pod/undoable
  workloads that the rotator restarts if they do not reload (servingcert.dev/on-rotate: restart), one of a namespace at a time: 1: shop Deployment/rolled
  workloads that were seen to reload, and serve the new certificate within 92 s of it: 1: shop Deployment/web
  workloads that mount the bundle alone, and have the new one within 92 s: 1: shop Deployment/client
`, got)
	assert.Equal(t, "  workloads that mount a certificate or the bundle: none\n", breaking(nil, services))
}

func TestNamed(t *testing.T) {
	assert.Equal(t, "  x: none\n", named("x", nil))
	assert.Equal(t, "  x: 2: a, b\n", named("x", []string{"b", "a"}))
	many := make([]string, maxNamed+3)
	for i := range many {
		many[i] = "n"
	}
	assert.Contains(t, named("x", many), "  x: 23: n, n,")
	assert.Contains(t, named("x", many), ", n and 3 more\n")
}
