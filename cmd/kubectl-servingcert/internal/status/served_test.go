package status

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
)

func TestCountUptake(t *testing.T) {
	var (
		current     = service("web", metav1.ConditionTrue, api.ServingCurrent, "")
		propagating = service("slow", metav1.ConditionFalse, api.ServingPropagating, "")
		reloads     = stale(service("old", metav1.ConditionFalse, api.ServingStale, "older, by Deployment legacy: restart it"), state.StaleWorkload{Kind: "Deployment", Name: "legacy", OnRotate: api.OnRotateReload})
		restarts    = stale(service("old", metav1.ConditionFalse, api.ServingStale, "older, by Deployment legacy: restart it"), state.StaleWorkload{Kind: "Deployment", Name: "legacy", OnRotate: api.OnRotateRestart})
		foreign     = service("mesh", metav1.ConditionFalse, api.ServingForeign, "another")
		nobody      = service("nobody", metav1.ConditionFalse, api.ServingNoConsumers, "")
		unknown     = Service{Namespace: "shop", Name: "unknown", Leaf: "new"}
		kept        = Service{Namespace: "shop", Name: "kept", Leaf: "new", retained: "kept-tls"}
		before      = service("before", metav1.ConditionTrue, api.ServingCurrent, "")
		later       = service("later", metav1.ConditionTrue, api.ServingCurrent, "")
		off         = service("off", metav1.ConditionUnknown, api.ServingNotVerified, "not probed")
		none        = Service{Namespace: "shop", Name: "none"}
		refused     = service("kept", metav1.ConditionTrue, api.ServingCurrent, "")
		never       = Service{Namespace: "shop", Name: "never", Ready: "False", Reason: api.ReasonNotOptedIn}
	)
	before.Serving.Leaf = "old"
	refused.Leaf, refused.Ready, refused.Reason, refused.Message = "", "False", api.ReasonNotOptedIn, "no label"
	failed := refused
	failed.Name, failed.Reason, failed.Message = "failed", "InvalidAnnotation", "not valid"
	later.Serving.Changed = noon.Add(time.Hour)
	for name, c := range map[string]struct {
		services []Service
		now      time.Time
		waiting  []string
		unseen   bool
		end      string
	}{
		"no Service":                    {nil, noon, nil, true, "served: no pod mounts a certificate\n"},
		"no pod mounts any":             {[]Service{nobody, none}, noon, nil, false, "served: no pod mounts a certificate\n"},
		"all serve":                     {[]Service{later, current, nobody}, noon, nil, false, "served: by every pod of 2 Services; the last one, shop/later, since 2026-03-01T13:00:00Z\n"},
		"one is on its way":             {[]Service{current, propagating}, noon, []string{"shop/slow"}, false, ""},
		"one was not looked at yet":     {[]Service{current, unknown}, noon, []string{"shop/unknown"}, false, ""},
		"one was looked at before":      {[]Service{before}, noon, []string{"shop/before"}, false, ""},
		"one will not":                  {[]Service{current, reloads, foreign}, noon, nil, false, "served: by every pod of 1 of 3 Services; the last one, shop/web, since 2026-03-01T12:01:00Z\nnot served: shop/old: older, by Deployment legacy: restart it\nnot served: shop/mesh: another\n"},
		"one is restarted":              {[]Service{restarts}, noon.Add(time.Minute + restartTime - 1), []string{"shop/old"}, false, ""},
		"one is not restarted for long": {[]Service{restarts}, noon.Add(time.Minute + restartTime), nil, false, "served: by no pod\nnot served: shop/old: older, by Deployment legacy: restart it\n"},
		"one has no label any more":     {[]Service{current, refused, never}, noon, nil, false, "served: by every pod of 1 of 2 Services; the last one, shop/web, since 2026-03-01T12:01:00Z\nnot served: shop/kept: no label\n"},
		"one failed before":             {[]Service{current, failed}, noon, nil, false, "served: by every pod of 1 of 2 Services; the last one, shop/web, since 2026-03-01T12:01:00Z\nnot served: shop/failed: not valid\n"},
		"one asks for nothing any more": {[]Service{current, kept}, noon, nil, false, "served: by every pod of 1 Service; the last one, shop/web, since 2026-03-01T12:01:00Z\n"},
		"not probed":                    {[]Service{off}, noon, nil, true, "served: by no pod\nnot served: shop/off: not probed\n"},
		"never probed":                  {[]Service{unknown}, noon, []string{"shop/unknown"}, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			u := CountUptake(c.services, c.now)
			assert.Equal(t, c.waiting, u.Waiting)
			assert.Equal(t, c.unseen, u.Unseen)
			if c.end != "" {
				assert.Equal(t, c.end, u.End())
			}
		})
	}
	assert.Equal(t, "the pods of 1 of 2 Services serve their new certificate; not yet: shop/slow", CountUptake([]Service{current, propagating}, noon).Progress())
}
