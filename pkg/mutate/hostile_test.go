package mutate

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate/choose"
	"github.com/servingcert/servingcert/pkg/mutate/commandline"
	"github.com/servingcert/servingcert/pkg/mutate/reasons"
	"github.com/servingcert/servingcert/test/bounded"
)

// largePod returns a pod that a Service selects, with one container, and what is known.
func largePod(change func(pod *corev1.Pod, c *corev1.Container)) (*corev1.Pod, choose.Known) {
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", Annotations: map[string]string{api.AnnotationSecretName: "web-tls"}},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Name: "https", Port: 443}}},
	}
	pod, known := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: service.Spec.Selector}}, choose.Known{Services: []*corev1.Service{service}}
	pod.Spec.Containers = []corev1.Container{{Name: "web", Args: []string{"serve"}}}
	change(pod, &pod.Spec.Containers[0])
	return pod, known
}

// TestPodsBeyondALimitAreRefused: only if something would be injected.
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
		"bytes": {func(_ *corev1.Pod, c *corev1.Container) {
			c.Env = []corev1.EnvVar{{Name: "A", Value: strings.Repeat("x", 1<<20)}}
			c.LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{strings.Repeat("x", 1<<20)}}}}
		}, `"2097157 bytes of commands, args and variables": must be at most 1572864`},
		"a name": {func(_ *corev1.Pod, c *corev1.Container) { c.Name = strings.Repeat("x", 64) }, `must have at most 63 bytes`},
		"what an earlier pass added": {func(pod *corev1.Pod, c *corev1.Container) {
			pod.Labels = map[string]string{"app": "web", api.LabelInjected: "true"}
			c.Ports = make([]corev1.ContainerPort, 2001)
		}, `"2001 ports": must be at most 2000`},
	} {
		t.Run(name, func(t *testing.T) {
			pod, known := largePod(tc.change)
			var err error
			allocated := bounded.Allocated(func() { _, _, err = Mutate(pod, known) })
			require.ErrorAs(t, err, new(*api.FieldError))
			assert.Contains(t, err.Error(), tc.says)
			assert.Contains(t, err.Error(), api.LabelInject)
			assert.Less(t, allocated, uint64(64<<10*bounded.RaceFactor))

			patch, _, err := Mutate(pod, choose.Known{})
			require.NoError(t, err, "nothing would be injected")
			assert.Empty(t, patch)
		})
	}
}

// TestTheExpandedSizeIsThatOfWhatIsExpanded: the size is computed by other code than the expansion.
func TestTheExpandedSizeIsThatOfWhatIsExpanded(t *testing.T) {
	for _, word := range []string{
		"", "$(A)", "x$(A)y$(B)", "$(unknown)", "$$(A)", "$(", "$()", "$(A", "$(A$(A)", "$(A(A)", "$((A))", "$(A)$(A)", ")$(A)(", "$(EMPTY)",
	} {
		pod, _ := largePod(func(_ *corev1.Pod, c *corev1.Container) {
			c.Args = []string{word}
			c.Env = []corev1.EnvVar{{Name: "A", Value: "value"}, {Name: "B", Value: "$(A)"}, {Name: "EMPTY"}}
		})
		in, c := newInput(pod, api.PodRequest{}, choose.Choice{}), &pod.Spec.Containers[0]
		assert.Equal(t, len(strings.Join(commandline.Of(c).Expanded(func() map[string]string { return in.variables(c) }), "")), in.expandedSize(maxExpanded), word)
	}
}

// TestAPodAtALimitIsInjectedAgain: the webhook is called again if another one has changed the pod. What it added
// the first time does not count.
func TestAPodAtALimitIsInjectedAgain(t *testing.T) {
	pod, known := largePod(func(pod *corev1.Pod, _ *corev1.Container) {
		pod.Annotations = map[string]string{api.AnnotationMode: string(api.ModeArgs), api.AnnotationTrust: string(api.TrustEnv), api.AnnotationIdentity: "true"}
		pod.Spec.Containers = nil
		var names []string
		for i := range maxContainers {
			c := corev1.Container{Name: fmt.Sprintf("c%d", i), Image: "example.com/web"}
			for j := range maxPorts / maxContainers {
				c.Ports = append(c.Ports, corev1.ContainerPort{ContainerPort: int32(1000 + 10*i + j)})
			}
			for j := range maxMounts / maxContainers {
				c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "v0", MountPath: fmt.Sprintf("/m/%d", j)})
			}
			for j := range maxVariables / maxContainers {
				c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprintf("V%d", j), Value: "x"})
			}
			for range maxWords / maxContainers {
				c.Args = append(c.Args, "word")
			}
			names = append(names, c.Name)
			pod.Spec.Containers = append(pod.Spec.Containers, c)
		}
		pod.Annotations[api.AnnotationContainers] = strings.Join(names, ",")
		pod.Spec.Containers[0].Env[0].Value = strings.Repeat("x", maxText-(maxVariables-1)*len("x")-maxWords*len("word"))
		for i := range maxVolumes {
			pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: fmt.Sprintf("v%d", i)})
		}
	})
	known.ProxyImage, known.TrustDomain = proxyImage, "example.com"
	known.Services[0].Spec.Ports = append(known.Services[0].Spec.Ports, corev1.ServicePort{Name: "web", Port: 444, TargetPort: intstr.FromString("sc-tls-1000")})
	_, report, err := Mutate(pod, known)
	require.NoError(t, err)
	assert.Len(t, report.Containers, maxContainers+1, "and the proxy")
	assert.Equal(t, "files,env,flags,trust,identity", report.Containers[1].Parts())
	after := pass(t, pod, known)
	assert.Len(t, after.Spec.InitContainers, 1)
	assert.Greater(t, len(after.Spec.Volumes), maxVolumes)
}

// TestLongTextsAreReadOnce: a container whose program would serve TLS is not served if another calls it without; the
// texts of the pod are not read again for each of them. They are in upper case, so that each reading copies them.
func TestLongTextsAreReadOnce(t *testing.T) {
	const size = 1 << 20
	pod, known := largePod(func(pod *corev1.Pod, c *corev1.Container) {
		c.Ports = []corev1.ContainerPort{{ContainerPort: 443}}
		for i := range maxContainers - 1 {
			pod.Spec.Containers = append(pod.Spec.Containers, *c.DeepCopy())
			pod.Spec.Containers[1+i].Name = fmt.Sprintf("c%d", i)
		}
		last := &pod.Spec.Containers[maxContainers-1]
		last.LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{strings.Repeat("LOCALHOST:9:", size/12)}}}}
	})
	known.UnknownPrograms = api.UnknownProgramsFlags
	var report Report
	var err error
	assert.Less(t, bounded.Allocated(func() { _, report, err = Mutate(pod, known) }), uint64(8*size*bounded.RaceFactor))
	require.NoError(t, err)
	assert.Len(t, report.Containers, maxContainers)
	assert.NotContains(t, report.Reasons(), reasons.PlaintextCall)

	known.Namespace = map[string]string{api.AnnotationMode: string(api.ModeArgs)}
	assert.Less(t, bounded.Allocated(func() { _, report, err = Mutate(pod, known) }), uint64(size*bounded.RaceFactor), "nobody asks for it")
	require.NoError(t, err)
	known.Namespace = nil

	pod.Spec.Containers[0].LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"wget", "localhost:443"}}}}
	assert.Less(t, bounded.Allocated(func() { _, report, err = Mutate(pod, known) }), uint64(8*size*bounded.RaceFactor))
	require.NoError(t, err)
	i := slices.IndexFunc(report.Notes, func(n reasons.Note) bool { return n.Reason == reasons.PlaintextCall })
	require.GreaterOrEqual(t, i, 0)
	assert.Equal(t, "container web: localhost:443", report.Notes[i].Detail)
	assert.Len(t, report.Notes[i].Containers, maxContainers)
}

// TestManyAnnotationsAreNotCopied: for each container whose program needs a configuration file, there must be room
// for it among the annotations.
func TestManyAnnotationsAreNotCopied(t *testing.T) {
	pod, known := largePod(func(pod *corev1.Pod, c *corev1.Container) {
		c.Image = "prom/prometheus:v3.5.0"
		for i := range maxContainers - 1 {
			pod.Spec.Containers = append(pod.Spec.Containers, *c.DeepCopy())
			pod.Spec.Containers[1+i].Name = fmt.Sprintf("c%d", i)
		}
		var names []string
		for i := range pod.Spec.Containers {
			names = append(names, pod.Spec.Containers[i].Name)
		}
		pod.Annotations = map[string]string{api.AnnotationContainers: strings.Join(names, ",")}
		for i := range 10_000 {
			pod.Annotations[fmt.Sprintf("a%d", i)] = ""
		}
	})
	var report Report
	assert.Less(t, bounded.Allocated(func() { _, report, _ = Mutate(pod, known) }), uint64(8<<20*bounded.RaceFactor))
	assert.Contains(t, report.Reasons(), reasons.ProgramNote)
}

// TestProgramsAreLookedUpOnce: what a container runs is asked for each port of a proxy, and for the container itself.
func TestProgramsAreLookedUpOnce(t *testing.T) {
	pod, known := largePod(func(pod *corev1.Pod, c *corev1.Container) {
		for range maxWords/maxContainers - 1 {
			c.Args = append(c.Args, "word")
		}
		for i := range maxContainers - 1 {
			pod.Spec.Containers = append(pod.Spec.Containers, *c.DeepCopy())
			pod.Spec.Containers[1+i].Name = fmt.Sprintf("c%d", i)
		}
	})
	known.ProxyImage = proxyImage
	for i := range api.MaxProxyPorts {
		known.Services[0].Spec.Ports = append(known.Services[0].Spec.Ports, corev1.ServicePort{Port: int32(i), TargetPort: intstr.FromString(fmt.Sprintf("sc-tls-%d", 1000+i))})
	}
	assert.Less(t, bounded.Allocated(func() { _, _, _ = Mutate(pod, known) }), uint64(1<<20*bounded.RaceFactor))
}

// TestLongValuesAreNotRepeated: of a variable that turns TLS off.
func TestLongValuesAreNotRepeated(t *testing.T) {
	long := strings.Repeat("1", 3<<20)
	assert.Less(t, bounded.Allocated(func() { assert.False(t, isTrue(long)) }), uint64(4<<10))
	assert.True(t, isTrue("TRUE"))
}
