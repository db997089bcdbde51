package rotator

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

func withPort(p *corev1.Pod) {
	p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "c", Ports: []corev1.ContainerPort{{ContainerPort: 10259}}})
}

func TestJudgeByConvention(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	inits := func(policy *corev1.ContainerRestartPolicy) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			withPort(p)
			p.Spec.InitContainers, p.Spec.Containers = p.Spec.Containers, []corev1.Container{{Name: "batch"}}
			p.Spec.InitContainers[0].RestartPolicy = policy
		}
	}
	with := func(changes ...func(*corev1.Pod)) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			for _, change := range changes {
				change(p)
			}
		}
	}
	exists := Place{OptedIn: true, Conventional: true}
	conventional := Choice{Secret: api.ConventionalSecretName, Conventional: true}
	for name, c := range map[string]struct {
		place  Place
		change func(*corev1.Pod)
		want   Verdict
	}{
		"declares a port":                   {exists, withPort, Verdict{ReasonNotInjected, conventional}},
		"declares none":                     {exists, nil, Verdict{Reason: ReasonNotConcerned}},
		"its sidecar declares one":          {exists, inits(&always), Verdict{ReasonNotInjected, conventional}},
		"its init container declares one":   {exists, inits(nil), Verdict{Reason: ReasonNotConcerned}},
		"a Job's":                           {exists, with(withPort, func(p *corev1.Pod) { p.OwnerReferences = []metav1.OwnerReference{{Kind: "Job"}} }), Verdict{Reason: ReasonNotConcerned}},
		"no Secret":                         {Place{OptedIn: true}, withPort, Verdict{Reason: ReasonNotConcerned}},
		"not opted in":                      {Place{Conventional: true}, withPort, Verdict{Reason: ReasonNotOptedIn}},
		"excluded":                          {Place{OptedIn: true, Excluded: true, Conventional: true}, withPort, Verdict{Reason: ReasonExcluded}},
		"mounts it by hand":                 {exists, with(withPort, secretVolume(api.ConventionalSecretName)), Verdict{ReasonMounts, conventional}},
		"names another":                     {exists, with(withPort, annotation(api.AnnotationSecretName, "mine")), Verdict{ReasonNotInjected, Choice{Secret: "mine"}}},
		"a Service asks for another for it": {Place{OptedIn: true, Conventional: true, Services: []*corev1.Service{service("web", "web-tls", "app", "web")}}, withPort, Verdict{ReasonNotInjected, Choice{Secret: "web-tls", Service: "web"}}},
		"opted out":                         {exists, with(withPort, label(api.LabelInject, api.InjectDisabled)), Verdict{Reason: ReasonOptedOut}},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.want, Judge(FactsOf(webPod(c.change)), c.place, chooseFirst))
		})
	}
}

func TestTheNoteSaysWhereTheSecretComesFrom(t *testing.T) {
	found := groupMissed([]*PodFacts{FactsOf(webPod(withPort))}, Place{OptedIn: true, Conventional: true}, chooseFirst)
	require.Len(t, found, 1)
	assert.Equal(t, "pod web was not injected with Secret serving-cert, which every new pod of the namespace gets that declares a port: "+
		"created before that or before the namespace's label, or while the webhook was away; recreate it", found[0].note("shop"))
}

func TestWhatTheSignerSaysOfConventionalSecrets(t *testing.T) {
	var c conventional
	says := func(namespaces ...string) *corev1.ConfigMap {
		return &corev1.ConfigMap{Data: map[string]string{api.ConventionalNamespacesKey: api.FormatNamespaces(namespaces)}}
	}
	assert.False(t, c.in("a"), "before it has said anything")
	for _, step := range []struct {
		says    *corev1.ConfigMap
		changed string
	}{
		{says("b", "a"), "a b"},
		{says("a", "b"), ""},
		{says("a", "c"), "b c"},
		{nil, "a c"},
		{&corev1.ConfigMap{}, ""},
		{says("a"), "a"},
	} {
		changed := c.set(step.says)
		slices.Sort(changed)
		assert.Equal(t, step.changed, strings.Join(changed, " "))
	}
	assert.True(t, c.in("a"))
	assert.False(t, c.in("b"))
}

func TestOpenShiftWordsCountWithTheFlagAlone(t *testing.T) {
	svc := service("web", "", "app", "web")
	svc.Annotations = map[string]string{api.OpenShiftSecretName: "web-tls"}
	for _, openShift := range []bool{false, true} {
		kept, err := serviceTransform(openShift)(svc)
		require.NoError(t, err)
		again, err := serviceTransform(openShift)(kept)
		require.NoError(t, err)
		assert.Equal(t, kept, again, "an informer may do it twice")
		secret, asks := api.Wants(kept.(*corev1.Service))
		assert.Equal(t, openShift, asks)
		assert.Equal(t, openShift, secret == "web-tls")
	}
}
