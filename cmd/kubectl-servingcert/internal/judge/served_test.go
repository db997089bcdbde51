package judge

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

func TestCountUptake(t *testing.T) {
	var (
		current     = service("web", metav1.ConditionTrue, api.ServingCurrent, "")
		propagating = service("slow", metav1.ConditionFalse, api.ServingPropagating, "")
		old         = service("old", metav1.ConditionFalse, api.ServingStale, "older, by Deployment legacy: restart it")
		bareStale   = service("bare", metav1.ConditionFalse, api.ServingStale, "older, by pods that no workload made")
		foreign     = service("mesh", metav1.ConditionFalse, api.ServingForeign, "another")
		nobody      = service("nobody", metav1.ConditionFalse, api.ServingNoConsumers, "")
		unknown     = Service{Namespace: "shop", Name: "unknown", Leaf: "new"}
		before      = service("before", metav1.ConditionTrue, api.ServingCurrent, "")
		later       = service("later", metav1.ConditionTrue, api.ServingCurrent, "")
		off         = service("off", metav1.ConditionUnknown, api.ServingNotVerified, "nobody looks")
		none        = Service{Namespace: "shop", Name: "none"}
		refused     = service("kept", metav1.ConditionTrue, api.ServingCurrent, "")
		never       = Service{Namespace: "shop", Name: "never", Ready: "False", Reason: api.ReasonNotOptedIn}
	)
	before.Serving.Leaf = "old"
	refused.Leaf, refused.Ready, refused.Reason, refused.Message = "", "False", api.ReasonNotOptedIn, "no label"
	later.Serving.Changed = noon.Add(time.Hour)
	for name, c := range map[string]struct {
		services []Service
		stale    []api.StaleWorkload
		waiting  []string
		unseen   bool
		end      string
	}{
		"nobody asks":                   {nil, nil, nil, true, "served: no pod mounts a certificate\n"},
		"no pod mounts any":             {[]Service{nobody, none}, nil, nil, false, "served: no pod mounts a certificate\n"},
		"all serve":                     {[]Service{later, current, nobody}, nil, nil, false, "served: by every pod of 2 Services; the last one, shop/later, since 2026-03-01T13:00:00Z\n"},
		"one is on its way":             {[]Service{current, propagating}, nil, []string{"shop/slow"}, false, ""},
		"one was not looked at yet":     {[]Service{current, unknown}, nil, []string{"shop/unknown"}, false, ""},
		"one was looked at before":      {[]Service{before}, nil, []string{"shop/before"}, false, ""},
		"one will not":                  {[]Service{current, old, foreign}, []api.StaleWorkload{stale("old", "Deployment", "legacy", api.OnRotateReload, nil)}, nil, false, "served: by every pod of 1 of 3 Services; the last one, shop/web, since 2026-03-01T12:01:00Z\nnot served: shop/old: older, by Deployment legacy: restart it\nnot served: shop/mesh: another\n"},
		"one is restarted":              {[]Service{old}, []api.StaleWorkload{stale("old", "Deployment", "legacy", api.OnRotateRestart, nil)}, []string{"shop/old"}, false, ""},
		"another is restarted":          {[]Service{old}, []api.StaleWorkload{stale("old", "Deployment", "legacy", api.OnRotateReload, nil), stale("other", "Deployment", "other", api.OnRotateRestart, nil)}, nil, false, "served: by no pod\nnot served: shop/old: older, by Deployment legacy: restart it\n"},
		"one asks for it and cannot be": {[]Service{bareStale}, []api.StaleWorkload{stale("bare", api.PodKind, "p", api.OnRotateRestart, &api.RestartHold{Reason: "NotRestartable", Message: "no controller would make it anew"})}, nil, false, "served: by no pod\nnot served: shop/bare: older, by pods that no workload made\nnot served: shop Pod/p held: NotRestartable: no controller would make it anew\n"},
		"one has no label any more":     {[]Service{current, refused, never}, nil, nil, false, "served: by every pod of 1 of 2 Services; the last one, shop/web, since 2026-03-01T12:01:00Z\nnot served: shop/kept: no label\n"},
		"nobody looks":                  {[]Service{off}, nil, nil, true, "served: by no pod\nnot served: shop/off: nobody looks\n"},
		"nobody has ever looked":        {[]Service{unknown}, nil, []string{"shop/unknown"}, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			AddStale(c.services, list(c.stale...))
			u := CountUptake(c.services)
			assert.Equal(t, c.waiting, u.Waiting)
			assert.Equal(t, c.unseen, u.Unseen)
			if c.end != "" {
				assert.Equal(t, c.end, u.End())
			}
		})
	}
	assert.Equal(t, "the pods of 1 of 2 Services serve their new certificate; not yet: shop/slow", CountUptake([]Service{current, propagating}).Progress())
}
