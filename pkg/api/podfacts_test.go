package api

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestExempt(t *testing.T) {
	mirror := func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: ""} }
	optOut := func(p *corev1.Pod) { p.Labels = map[string]string{LabelInject: InjectDisabled} }
	windows := func(p *corev1.Pod) { p.Spec.OS = &corev1.PodOS{Name: corev1.Windows} }
	windowsNode := func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{corev1.LabelOSStable: "windows"} }
	linux := func(p *corev1.Pod) {
		p.Spec.OS, p.Spec.NodeSelector = &corev1.PodOS{Name: corev1.Linux}, map[string]string{corev1.LabelOSStable: "linux"}
	}
	for name, c := range map[string]struct {
		changes []func(*corev1.Pod)
		want    string
	}{
		"an ordinary pod":        {nil, ""},
		"Linux":                  {[]func(*corev1.Pod){linux}, ""},
		"Windows":                {[]func(*corev1.Pod){windows}, ExemptWindows},
		"a Windows node":         {[]func(*corev1.Pod){windowsNode}, ExemptWindows},
		"opted out":              {[]func(*corev1.Pod){optOut}, ExemptOptedOut},
		"opted out, Windows":     {[]func(*corev1.Pod){optOut, windows}, ExemptOptedOut},
		"mirror pod":             {[]func(*corev1.Pod){mirror}, ExemptMirrorPod},
		"mirror pod, everything": {[]func(*corev1.Pod){mirror, optOut, windows}, ExemptMirrorPod},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{}
			for _, change := range c.changes {
				change(pod)
			}
			request, err := ParsePod(&pod.ObjectMeta)
			assert.NoError(t, err)
			assert.Equal(t, c.want, Exempt(pod, request))
		})
	}
}

func TestRunningContainers(t *testing.T) {
	always, never := corev1.ContainerRestartPolicyAlways, corev1.ContainerRestartPolicyNever
	ports := []corev1.ContainerPort{{ContainerPort: 53, Protocol: corev1.ProtocolUDP}}
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "setup", Ports: ports}, {Name: "sidecar", RestartPolicy: &always}, {Name: "once", RestartPolicy: &never}},
		Containers:     []corev1.Container{{Name: "web"}, {Name: "proxy"}},
	}}
	sidecar, web, proxy := &pod.Spec.InitContainers[1], &pod.Spec.Containers[0], &pod.Spec.Containers[1]
	assert.Equal(t, []ContainerRef{{sidecar, true, 1}, {web, false, 0}, {proxy, false, 1}}, RunningContainers(pod))

	assert.False(t, DeclaresPort(pod), "an init container ends before the pod serves")
	sidecar.Ports = ports
	assert.True(t, DeclaresPort(pod))
	sidecar.Ports, proxy.Ports = nil, ports
	assert.True(t, DeclaresPort(pod))
}

func TestOwnedByJob(t *testing.T) {
	pod := &corev1.Pod{}
	assert.False(t, OwnedByJob(pod))
	pod.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet"}}
	assert.False(t, OwnedByJob(pod))
	pod.OwnerReferences = append(pod.OwnerReferences, metav1.OwnerReference{Kind: "Job"})
	assert.True(t, OwnedByJob(pod))
}

func TestDeclares(t *testing.T) {
	c := ContainerRef{Container: &corev1.Container{Ports: []corev1.ContainerPort{
		{Name: "https", ContainerPort: 8443}, {ContainerPort: 9443, Protocol: corev1.ProtocolTCP}, {Name: "quic", ContainerPort: 4433, Protocol: corev1.ProtocolUDP},
	}}}
	for target, want := range map[intstr.IntOrString]bool{
		intstr.FromString("https"): true, intstr.FromInt32(8443): true, intstr.FromInt32(9443): true,
		intstr.FromString("http"): false, intstr.FromInt32(443): false, intstr.FromString("8443"): false,
		intstr.FromString("quic"): false, intstr.FromInt32(4433): false,
	} {
		assert.Equal(t, want, c.Declares(target), target.String())
	}
}
