package uninjected

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/test/rotatortest"
)

// TestAlikePodsGetTheVerdictOfEach: what is evaluated once for several templates is what each of them would get.
func TestAlikePodsGetTheVerdictOfEach(t *testing.T) {
	drifts := 0
	rapid.Check(t, func(t *rapid.T) {
		one := func(name string, of ...string) string { return rapid.SampledFrom(of).Draw(t, name) }
		place := Place{OptedIn: true, Services: []*corev1.Service{withPorts("a", 80), withPorts("web-0", 81), rotatortest.Asking("b", map[string]string{"app": "x", "tier": "y"}, 8443)}}
		var all []*pods.Facts
		for range 12 {
			all = append(all, pods.FactsOf(rotatortest.Pod(func(p *corev1.Pod) {
				p.Name = one("name", "web-0", "web-1", "a.shop")
				p.Labels = map[string]string{"app": one("app", "a", "x"), "tier": one("tier", "y", "z"), "statefulset.kubernetes.io/pod-name": p.Name}
				p.Annotations[api.AnnotationConnect] = one("connect", "*", "*", "web-0")
				p.OwnerReferences = []metav1.OwnerReference{rotatortest.ControlledBy("apps/v1", "StatefulSet", one("owner", "web", "other"))}
				p.Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{{ContainerPort: 8443}}}}
				if one("mounts", "yes", "no") == "yes" {
					rotatortest.SecretVolume(p.Labels["app"] + "-tls")(p)
				}
				if one("opted out", "", "", "", "yes") != "" {
					p.Labels[api.LabelInject] = api.InjectDisabled
				}
			})))
		}
		verdicts := verdictsOf(all, place)
		for _, pod := range all {
			want := Evaluate(pod, place)
			if !assert.ObjectsAreEqual(want, verdicts[pod.Template]) {
				t.Fatalf("%s: want %v, got %v", pod.Name, want, verdicts[pod.Template])
			}
			drifts += len(want.Drift)
		}
	})
	assert.Positive(t, drifts)
}
