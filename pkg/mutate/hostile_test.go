package mutate

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/bounded"
)

func selectedBy(services ...*corev1.Service) (*corev1.Pod, Known) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}}
	for i, s := range services {
		s.Name, s.Namespace, s.Spec.Selector = fmt.Sprintf("web-%04d", i), "shop", pod.Labels
	}
	return pod, Known{Services: services}
}

func asking(key, value string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{api.AnnotationSecretName: "web-tls", key: value}}}
}

// TestHostileServicesCostLittle: what a Service of the pod's namespace says costs a review
// no more than a few copies of what may be said.
func TestHostileServicesCostLittle(t *testing.T) {
	const most = 256 << 10
	for _, key := range []string{api.AnnotationExtraDNSNames, api.AnnotationContainers, api.AnnotationDuration, api.AnnotationMountPath, api.AnnotationCertFlag} {
		for _, value := range []string{strings.Repeat("a,", most/2), strings.Repeat("a", most), strings.Repeat("a.web.shop.svc,", most/15)} {
			pod, known := selectedBy(asking(key, value))
			var choice Choice
			assert.Less(t, bounded.Allocated(func() { choice = Choose(pod, api.PodRequest{}, known) }), uint64(4*api.MaxAnnotation*bounded.RaceFactor), "%s: %.20s", key, value)
			assert.NotEmpty(t, choice.Notes, key)
			for _, n := range choice.Notes {
				assert.Less(t, len(n.Detail), 2000, key)
			}
		}
	}
}

// TestOnlySomeServicesAreExamined: many Services of one Secret that list as many names as
// they may cost as much as some of them.
func TestOnlySomeServicesAreExamined(t *testing.T) {
	var names []string
	for i := range api.MaxNames - 2 {
		names = append(names, fmt.Sprintf("n%d.example.com", i))
	}
	cost := func(n int) (uint64, Choice) {
		var services []*corev1.Service
		for range n {
			services = append(services, asking(api.AnnotationExtraDNSNames, strings.Join(names, ",")+",-"))
		}
		pod, known := selectedBy(services...)
		var choice Choice
		return bounded.Allocated(func() { choice = Choose(pod, api.PodRequest{}, known) }), choice
	}
	some, _ := cost(maxExamined)
	many, choice := cost(20 * maxExamined)
	assert.Equal(t, maxExamined, len(choice.Notes)) //nolint:testifylint // Len would print all of them
	assert.Less(t, many, 3*some)
}

// largePod returns a pod that a Service selects, with one container, and what is known.
func largePod(change func(pod *corev1.Pod, c *corev1.Container)) (*corev1.Pod, Known) {
	service := asking("x", "y")
	service.Spec.Ports = []corev1.ServicePort{{Name: "https", Port: 443}}
	pod, known := selectedBy(service)
	pod.Spec.Containers = []corev1.Container{{Name: "web", Args: []string{"serve"}}}
	change(pod, &pod.Spec.Containers[0])
	return pod, known
}

// TestPodsBeyondALimitAreRefused: by the limit, and only where something would be injected.
func TestPodsBeyondALimitAreRefused(t *testing.T) {
	repeat := func(n int, do func(i int)) {
		for i := range n {
			do(i)
		}
	}
	for name, tc := range map[string]struct {
		change func(pod *corev1.Pod, c *corev1.Container)
		says   string
	}{
		"containers": {func(pod *corev1.Pod, _ *corev1.Container) {
			pod.Spec.Containers = make([]corev1.Container, 60)
			pod.Spec.InitContainers = make([]corev1.Container, 60)
		}, `spec.containers: "120 containers": must be at most 100`},
		"volumes": {func(pod *corev1.Pod, _ *corev1.Container) { pod.Spec.Volumes = make([]corev1.Volume, 501) }, `spec.volumes: "501 volumes": must be at most 500`},
		"mounts":  {func(_ *corev1.Pod, c *corev1.Container) { c.VolumeMounts = make([]corev1.VolumeMount, 2001) }, `"2001 mounts": must be at most 2000`},
		"ports":   {func(_ *corev1.Pod, c *corev1.Container) { c.Ports = make([]corev1.ContainerPort, 1001) }, `"1001 ports": must be at most 1000`},
		"env":     {func(_ *corev1.Pod, c *corev1.Container) { c.Env = make([]corev1.EnvVar, 5001) }, `"5001 variables": must be at most 5000`},
		"words":   {func(_ *corev1.Pod, c *corev1.Container) { c.Args = make([]string, 5001) }, `"5001 words of command and args": must be at most 5000`},
		"variables in one word": {func(_ *corev1.Pod, c *corev1.Container) {
			c.Env = []corev1.EnvVar{{Name: "A", Value: strings.Repeat("x", 100<<10)}}
			c.Args = []string{strings.Repeat("$(A)", 25<<10)}
		}, "must have at most 1048576 bytes once the variables are replaced"},
		"variables in many words": {func(_ *corev1.Pod, c *corev1.Container) {
			c.Env = []corev1.EnvVar{{Name: "A", Value: strings.Repeat("x", 100<<10)}}
			repeat(4000, func(int) { c.Args = append(c.Args, "$(A)") })
		}, "must have at most 1048576 bytes"},
		"variables in many containers": {func(pod *corev1.Pod, c *corev1.Container) {
			c.Env = []corev1.EnvVar{{Name: "A", Value: strings.Repeat("x", 2<<10)}}
			c.Args = []string{strings.Repeat("$(A)", 50)}
			repeat(99, func(int) { pod.Spec.Containers = append(pod.Spec.Containers, *c) })
		}, "must have at most 1048576 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			pod, known := largePod(tc.change)
			var err error
			allocated := bounded.Allocated(func() { _, _, err = Mutate(pod, known) })
			require.ErrorAs(t, err, new(*api.FieldError))
			assert.Contains(t, err.Error(), tc.says)
			assert.Contains(t, err.Error(), api.LabelInject)
			assert.Less(t, allocated, uint64(64<<10*bounded.RaceFactor))

			patch, _, err := Mutate(pod, Known{})
			require.NoError(t, err, "nothing would be injected")
			assert.Empty(t, patch)
		})
	}
}

// TestTheExpandedSizeIsThatOfWhatIsExpanded: it is counted by other code.
func TestTheExpandedSizeIsThatOfWhatIsExpanded(t *testing.T) {
	for _, word := range []string{
		"", "$(A)", "x$(A)y$(B)", "$(unknown)", "$$(A)", "$(", "$()", "$(A", "$(A$(A)", "$(A(A)", "$((A))", "$(A)$(A)", ")$(A)(", "$(EMPTY)",
	} {
		pod, _ := largePod(func(_ *corev1.Pod, c *corev1.Container) {
			c.Args = []string{word}
			c.Env = []corev1.EnvVar{{Name: "A", Value: "value"}, {Name: "B", Value: "$(A)"}, {Name: "EMPTY"}}
		})
		in := newInput(pod, api.PodRequest{}, Choice{})
		assert.Equal(t, len(strings.Join(in.expanded(&pod.Spec.Containers[0], commandLineOf(&pod.Spec.Containers[0])), "")), in.expandedSize(), word)
	}
}

// TestALongListIsNotDecoded: a container of three bytes in JSON has hundreds decoded.
func TestALongListIsNotDecoded(t *testing.T) {
	for _, list := range []string{"containers", "initContainers", "volumes"} {
		body := []byte(`{"spec":{"` + list + `":[` + strings.Repeat("{},", 100_000) + `{}]}}`)
		var lists PodLists
		var err error
		assert.Less(t, bounded.Allocated(func() { err = json.Unmarshal(body, &lists) }), uint64(len(body)), list)
		require.ErrorContains(t, err, "100001 ")
		require.ErrorContains(t, err, "must be at most 1000")
	}
	for text, n := range map[string]int{`[]`: 1, `null`: 1, `[{}]`: 1, `[{},{}]`: 2, `[{"a":[1,2,"],"]},{"b":"\\\",["}]`: 2, `["\\",[],{}]`: 3} {
		require.True(t, json.Valid([]byte(text)), text)
		assert.Equal(t, n, elementsOf([]byte(text)), text)
	}
}

// TestArgumentsAreLookedAtOnce: a program of which each argument could be one that runs a
// shell takes time in proportion to its arguments. Compared are the processor times of one
// run; the factor is far from both 8 and 64.
func TestArgumentsAreLookedAtOnce(t *testing.T) {
	line := func(n int) commandLine {
		l := commandLine{tokens: []string{"serve"}, command: 1}
		for range n {
			l.tokens = append(l.tokens, "su")
		}
		return l
	}
	few, many := line(4_000), line(32_000)
	assert.False(t, few.ignoresArguments())
	assert.Less(t, bounded.Growth(func() { few.ignoresArguments() }, func() { many.ignoresArguments() }), 24.0)
	assert.True(t, commandLine{tokens: append(many.tokens, "-c"), command: 1}.ignoresArguments())
}

// TestTargetPortsAreASet: Services that name the same port often name it once.
func TestTargetPortsAreASet(t *testing.T) {
	var services []*corev1.Service
	for range 50 {
		s := asking("x", "y")
		s.Spec.Ports = []corev1.ServicePort{{Name: "https", Port: 443}}
		services = append(services, s)
	}
	pod, known := selectedBy(services...)
	assert.Len(t, Choose(pod, api.PodRequest{}, known).Ports, 1)
}
