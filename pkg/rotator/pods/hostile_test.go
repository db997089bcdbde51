package pods

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/bounded"
	"github.com/servingcert/servingcert/test/rotatortest"
)

// portsAndSecrets returns a pod with n ports and one volume of n Secrets, and the size of its text.
func portsAndSecrets(n int) (pod *corev1.Pod, size int) {
	pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "x"}}
	var sources []corev1.VolumeProjection
	c := corev1.Container{Name: "c", VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}}
	for i := range n {
		name := fmt.Sprintf("s%d", i)
		sources = append(sources, corev1.VolumeProjection{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: name}}})
		c.Ports = append(c.Ports, corev1.ContainerPort{ContainerPort: 8443})
		size += len(name) + len(`{"secret":{"name":""}},`) + len(`{"containerPort":8443},`)
	}
	pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: sources}}}}
	pod.Spec.Containers = []corev1.Container{c}
	return pod, size
}

// TestHostilePodsCostLittle: facts of the largest possible pods cost a few times their size, not
// the product of two of their lists.
func TestHostilePodsCostLittle(t *testing.T) {
	const most, factor = 256 << 10, 12
	annotated := func(key, value string) *corev1.Pod {
		pod, _ := portsAndSecrets(1)
		pod.Annotations = map[string]string{key: value}
		return pod
	}
	crossed, crossedSize := portsAndSecrets(3_000)
	owned, _ := portsAndSecrets(1)
	owned.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: strings.Repeat("x", 1<<20), Name: "x", Controller: new(true)}}
	commas, _ := portsAndSecrets(1)
	commas.Spec.Volumes[0].Projected.Sources[0].Secret.Name = strings.Repeat("a,", 1<<19)
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		size int
	}{
		"ports and Secrets": {crossed, crossedSize},
		"containers":        {annotated(api.AnnotationContainers, strings.Repeat("a,", most/2)), most},
		"status":            {annotated(api.AnnotationStatus, `{"notes":[`+strings.Repeat(`"",`, most/3)+`""]}`), most},
		"leaf":              {annotated(api.AnnotationLeaf, strings.Repeat("a,", most/2)), most},
		"secret-name":       {annotated(api.AnnotationSecretName, strings.Repeat("a", most)), most},
		"owner":             {owned, 1 << 20},
		"name of a Secret":  {commas, 1 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			var f *Facts
			assert.Less(t, bounded.Allocated(func() { f = FactsOf(tc.pod) }), uint64(factor*tc.size))
			template := f.Template.Value()
			kept := len(template.mounts) + len(template.Ports) + len(template.SecretName) + len(template.Mistake) + len(template.Explained.String()) + len(template.Workload.Kind) + len(f.Leaf())
			assert.Less(t, kept, 40<<10+len(tc.pod.Spec.Containers[0].Ports)*24)
			assert.LessOrEqual(t, len(f.Keys()), api.MaxMounts)
		})
	}
}

// TestPortsHaveTheSecretsOfTheirContainer: whatever other containers mount.
func TestPortsHaveTheSecretsOfTheirContainer(t *testing.T) {
	pod, _ := portsAndSecrets(70)
	pod.Spec.Containers[0].Ports = pod.Spec.Containers[0].Ports[:1]
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "own", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s10"}}})
	pod.Spec.Containers = append(pod.Spec.Containers,
		corev1.Container{Name: "one", Ports: []corev1.ContainerPort{{Name: "https", ContainerPort: 443}}, VolumeMounts: []corev1.VolumeMount{{Name: "own"}}},
		corev1.Container{Name: "none", Ports: []corev1.ContainerPort{{ContainerPort: 80}}})
	ports := FactsOf(pod).Template.Value().TCPPorts()
	require.Len(t, ports, 3)
	assert.Len(t, ports[0].Secrets, api.MaxMounts)
	assert.Equal(t, Port{"https", 443, []string{"s10"}}, ports[1])
	assert.Equal(t, Port{"", 80, nil}, ports[2])
}

// crashed returns a pod whose container app has n mounts of the Secret and n arguments, and
// crashes.
func crashed(mounts, arguments int) *corev1.Pod {
	pod := rotatortest.Pod(rotatortest.SecretVolume("web-tls"), withStatus(api.InjectionStatus{Secret: "web-tls", Containers: map[string]string{"app": "files,env,flags"}}), statuses(crashing("app", "said")))
	c := corev1.Container{Name: "app"}
	for i := range mounts {
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "v", MountPath: fmt.Sprint("/m", i)})
	}
	for i := range arguments {
		c.Args = append(c.Args, fmt.Sprint("--a", i, "=/x"))
	}
	pod.Spec.Containers = []corev1.Container{c}
	return pod
}

// hugePod returns a pod with the maximum of everything that is kept.
func hugePod() *corev1.Pod {
	long := func(n int, text string) string { return strings.Repeat(text, n)[:n] }
	pod := rotatortest.ReadyPod(long(253, "n"), "")
	pod.Namespace, pod.UID, pod.ResourceVersion = long(63, "n"), types.UID(long(100, "u")), long(100, "r")
	pod.Spec.Hostname, pod.Spec.Subdomain = long(63, "h"), long(63, "s")
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: long(317, "\u00e9"), Kind: long(63, "\u00e9"), Name: long(253, "\u00e9"), UID: types.UID(long(253, "u")), Controller: new(true)}}
	given := api.InjectionStatus{Secret: long(250, "s") + "000", Service: long(63, "s"), Reason: "x", Containers: map[string]string{}}
	var sources []corev1.VolumeProjection
	for i := range 500 {
		name := fmt.Sprintf("%s%03d", long(250, "s"), i)
		sources = append(sources, corev1.VolumeProjection{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: name}}})
		pod.Labels[fmt.Sprint(long(250, "l"), ".example.com/", long(60, "k"), i)] = long(63, "v")
		name = fmt.Sprint("c", i, long(50, "c"))
		given.Containers[name] = "files,env,flags"
		c := corev1.Container{Name: name, VolumeMounts: []corev1.VolumeMount{{Name: "all", MountPath: "/m"}}}
		for j := range 100 {
			c.Ports = append(c.Ports, corev1.ContainerPort{Name: fmt.Sprint(long(10, "p"), j), ContainerPort: int32(i*100 + j)})
			c.Args = append(c.Args, fmt.Sprintf("--%s%02d=/m/x", long(98, "f"), j))
		}
		pod.Spec.Containers = append(pod.Spec.Containers, c)
		status := crashing(name, long(32<<10, "m"))
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, status)
	}
	sources = append(sources, corev1.VolumeProjection{PodCertificate: &corev1.PodCertificateProjection{SignerName: api.SignerName}})
	pod.Spec.Volumes = []corev1.Volume{{Name: "all", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: sources}}}}
	withStatus(given)(pod)
	pod.Annotations[api.AnnotationLeaf] = long(api.LongestMounted(FactsOf(pod).Template.Value().mounted()), "secret/x=")
	pod.Annotations[api.AnnotationMode] = long(100<<10, "\u00e9")
	return pod
}

// TestMaxKept: at most the limits of docs/limits.md are kept of a pod.
func TestMaxKept(t *testing.T) {
	bare := rotatortest.Pod()
	assert.Less(t, kept(FactsOf(bare)), 100)
	f := FactsOf(hugePod())
	assert.LessOrEqual(t, kept(f), MaxKept)
	assert.Greater(t, kept(f)+maxAdmits, MaxKept*4/5, "the pod is as large as can be, beside a list of clients")
	for _, huge := range []*corev1.Pod{hugePod(), crashed(8_000, 80_000), crashed(1, 100_000)} {
		assert.LessOrEqual(t, kept(FactsOf(huge)), MaxKept)
	}
}

// kept returns the number of bytes of text in the facts.
func kept(f *Facts) int {
	size := textIn(reflect.ValueOf(f.Template.Value())) + len(f.Leaf())
	for _, v := range []any{f.ObjectMeta, f.Trouble} {
		size += textIn(reflect.ValueOf(v))
	}
	return size
}

func textIn(v reflect.Value) (size int) {
	switch v.Kind() {
	case reflect.String:
		return v.Len()
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			return textIn(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			size += textIn(v.Field(i))
		}
	case reflect.Slice:
		for i := range v.Len() {
			size += textIn(v.Index(i)) + int(v.Index(i).Type().Size())
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			size += textIn(k) + textIn(v.MapIndex(k))
		}
	}
	return size
}
