package controller

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/rotator/uninjected"
)

func TestNotes(t *testing.T) {
	web := uninjected.Key{Workload: pods.Workload{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}, Gets: pods.SecretKey("web-tls")}
	const before = " created before that, before the namespace was labelled, or while the webhook was not available; "
	tests := []struct {
		group uninjected.Group
		want  string
	}{
		{
			uninjected.Group{Key: web, Service: "web", Pods: 3, Pod: "web-a"},
			"3 pods (web-a among them) were not injected with Secret web-tls, which Service web requests: they were" + before + "restart it: kubectl rollout restart deployment/web -n shop",
		},
		{
			uninjected.Group{Key: uninjected.Key{Gets: pods.SecretKey("mine")}, Pods: 1, Pod: "p"},
			"pod p was not injected with Secret mine, which the pod's annotation requests: it was" + before + "recreate it",
		},
		{
			uninjected.Group{Key: web, Service: "web", Pods: 1, Pod: "web-a", Mistake: `servingcert.dev/mode: "flags": must be "args", "env" or "mount"`},
			"pod web-a was not injected with Secret web-tls, which Service web requests: it was" + before +
				`correct servingcert.dev/mode: "flags": must be "args", "env" or "mount"; then restart it: kubectl rollout restart deployment/web -n shop`,
		},
		{
			uninjected.Group{Key: uninjected.Key{Gets: pods.SecretKey("serving-cert")}, Conventional: true, Pods: 1, Pod: "web"},
			"pod web was not injected with Secret serving-cert, which every new pod with a port gets in this namespace: it was" + before + "recreate it",
		},
	}
	for _, tt := range tests {
		assert.Equal(t, tt.want, note(tt.group, "shop"))
	}
	name := strings.Repeat("n", 63)
	long := uninjected.Group{
		Key:     uninjected.Key{Workload: pods.Workload{APIVersion: "apps/v1", Kind: "StatefulSet", Name: name, UID: "u"}, Gets: pods.SecretKey(strings.Repeat("s", 150))},
		Service: name, Pods: 1000, Pod: strings.Repeat("p", 100), Mistake: strings.Repeat("é", 2000),
	}
	assert.Less(t, len([]rune(note(long, name))), 1024, "the API server takes no longer note")

	long.Noted = strings.Repeat("\x1b", 2000)
	assert.Less(t, len([]rune(noted(long))), 1024)
	web.Noted = "NotServing: no container\x1b[31m declares it"
	assert.Equal(t, `the webhook noted on 2 pods (web-a among them): "NotServing: no container\x1b[31m declares it"`, noted(uninjected.Group{Key: web, Pods: 2, Pod: "web-a"}))
	assert.Equal(t, "NotServing", actionOf(web.Noted))
	assert.Equal(t, actionInject, actionOf("a b: c"))

	drifted := uninjected.Group{Key: uninjected.Key{Workload: pods.Workload{APIVersion: "apps/v1", Kind: "Deployment", Name: "cart"}, Drift: "x; y"}, Pods: 2, Pod: "cart-a"}
	assert.Equal(t, "2 pods (cart-a among them) do not connect to Services as new pods would: x; y; restart it: kubectl rollout restart deployment/cart -n shop", outdated(drifted, "shop"))
	drifted.LeftOut, drifted.Pods = true, 1
	assert.Equal(t, "pod cart-a does not connect to Services as new pods would: x; y; correct that before you restart it: calls of new pods would not go through the proxy", outdated(drifted, "shop"))
	long.Noted, long.Drift = "", strings.Repeat("é", 600)
	assert.Less(t, len([]rune(outdated(long, name))), 1024)
}
