package api

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// TestRequiredNodes: a pod is for Windows if no term of its node affinity allows another node.
func TestRequiredNodes(t *testing.T) {
	is := func(key string, op corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorRequirement {
		return corev1.NodeSelectorRequirement{Key: key, Operator: op, Values: values}
	}
	term := func(all ...corev1.NodeSelectorRequirement) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: all}
	}
	const os = corev1.LabelOSStable
	windows, gpu := is(os, corev1.NodeSelectorOpIn, "windows"), is("gpu", corev1.NodeSelectorOpExists)
	for _, tt := range []struct {
		terms []corev1.NodeSelectorTerm
		want  bool
	}{
		{nil, false},
		{[]corev1.NodeSelectorTerm{term(windows)}, true},
		{[]corev1.NodeSelectorTerm{term(gpu, windows), term(windows, gpu)}, true},
		{[]corev1.NodeSelectorTerm{term(windows), term(gpu)}, false},
		{[]corev1.NodeSelectorTerm{term(windows), {MatchFields: []corev1.NodeSelectorRequirement{is("metadata.name", corev1.NodeSelectorOpIn, "n1")}}}, false},
		{[]corev1.NodeSelectorTerm{term(windows), term()}, true},
		{[]corev1.NodeSelectorTerm{term()}, false},
		{[]corev1.NodeSelectorTerm{term(is(os, corev1.NodeSelectorOpIn, "windows", "linux"))}, false},
		{[]corev1.NodeSelectorTerm{term(is(os, corev1.NodeSelectorOpIn))}, false},
		{[]corev1.NodeSelectorTerm{term(is(os, corev1.NodeSelectorOpIn, "linux"))}, false},
		{[]corev1.NodeSelectorTerm{term(is(os, corev1.NodeSelectorOpNotIn, "linux"))}, true},
		{[]corev1.NodeSelectorTerm{term(is(os, corev1.NodeSelectorOpNotIn, "windows"))}, false},
		{[]corev1.NodeSelectorTerm{term(is("os", corev1.NodeSelectorOpIn, "windows"))}, false},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: tt.terms},
		}}}}
		assert.Equal(t, tt.want, Exempt(pod, PodRequest{}) == ExemptWindows, "%+v", tt.terms)
		pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = nil
		pod.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution = []corev1.PreferredSchedulingTerm{{Weight: 1, Preference: term(windows)}}
		assert.Empty(t, Exempt(pod, PodRequest{}), "what is preferred is not required")
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
	assert.False(t, ownedByJob(pod))
	pod.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet"}}
	assert.False(t, ownedByJob(pod))
	pod.OwnerReferences = append(pod.OwnerReferences, metav1.OwnerReference{Kind: "Job"})
	assert.True(t, ownedByJob(pod))
}

func TestOneShot(t *testing.T) {
	for name, c := range map[string]struct {
		meta metav1.ObjectMeta
		want bool
	}{
		"an ordinary pod": {metav1.ObjectMeta{Annotations: map[string]string{"helm.sh/chart": "web-1"}, OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet"}}}, false},
		"a Job's":         {metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Kind: "Job"}}}, true},
		"a Helm test":     {metav1.ObjectMeta{Annotations: map[string]string{"helm.sh/hook": "test"}}, true},
		"a Helm hook":     {metav1.ObjectMeta{Annotations: map[string]string{"helm.sh/hook": "pre-install,pre-upgrade"}}, true},
	} {
		assert.Equal(t, c.want, OneShot(&corev1.Pod{ObjectMeta: c.meta}), name)
	}
}
