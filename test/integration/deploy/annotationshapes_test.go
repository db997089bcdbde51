package deploy

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
)

// shapeValues are values of which each shape accepts some. Those that are accepted are right in every
// other way too.
func shapeValues(shape api.Shape) []string {
	list := func(n int) string { return strings.TrimSuffix(strings.Repeat("443=smtp,", n), ",") }
	return []string{
		"false", "args", "secret", "external", "reload", "ED25519", "web-tls", "a.b", "a, b ,c", "s3cret!", "--x", "/x", "/Schlüssel", "720h", "2026-01-31T12:00:00Z", "8081, 8082",
		"limits.cpu=1, limits.memory=64Mi", "443=postgres", "ca.crt, der",
		"", ",", "Web", "a b", "x\n", "--x=y", "10.96.0.7", "/a$(X)", "/etc", "//etc/./", "/proc/1", "/x/../certs", "65536", "ü", strings.Repeat("ü", shape.MaxBytes/2+1),
		list(shape.MaxEntries + 1), strings.Repeat("a", shape.MaxBytes+1), strings.Repeat("a", 200<<10), "/" + strings.Repeat("a", shape.MaxBytes-1),
	}
}

// TestThePolicyChecksTheShapes: the policy refuses a value if its shape does, with the annotation and
// what is allowed, and accepts every other. Of annotations that a kind does not have, it refuses none.
func TestThePolicyChecksTheShapes(t *testing.T) {
	admin, namespace := adminClient(t), newNamespace(t, false)
	places := map[string]api.Place{"Service": api.OnService, "Namespace": api.OnNamespace}
	for _, on := range []string{"Service", "Namespace", "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "CronJob"} {
		place, ok := places[on]
		if !ok {
			place = api.OnPod
		}
		t.Run(on, func(t *testing.T) {
			accepted := 0
			for key, shape := range api.Shapes() {
				values := shapeValues(shape)
				if place == api.OnPod && on != "Deployment" {
					values = []string{"web-tls", "none", "a b"}
				}
				for _, value := range values {
					err := admin.Create(t.Context(), makers[on](namespace, map[string]string{key: value}), client.DryRunAll)
					what := fmt.Sprintf("%s=%q: %s", key, api.Shorten(value, 30), shape.Check(value))
					if shape.Check(value) == "" || !slices.Contains(shape.On, place) {
						assert.NoError(t, err, what)
						accepted++
						continue
					}
					assert.ErrorContains(t, err, "ValidatingAdmissionPolicy", what)
					assert.True(t, namesARule(err, key, shape), "%s: %v", what, err)
				}
			}
			assert.Positive(t, accepted)
		})
	}
}

// namesARule reports whether the error has the annotation and the text of one of its rules, or the
// largest size of the list.
func namesARule(err error, key string, shape api.Shape) bool {
	texts := []string{fmt.Sprintf("must be at most %d %s and %d bytes", shape.MaxEntries, shape.Entries, shape.MaxBytes)}
	for _, rule := range shape.Rules {
		texts = append(texts, rule.Detail)
	}
	return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(fmt.Sprint(err), key+": "+text) })
}
