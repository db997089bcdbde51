package pods

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/bounded"
	"github.com/servingcert/servingcert/test/rotatortest"
)

// pieces returns n texts made from one: its parts, again and again.
func pieces(text string, n int) []string {
	parts := strings.Split(text, "\x00")
	out := make([]string, n)
	for i := range out {
		out[i] = parts[i%len(parts)]
	}
	return out
}

// FuzzFactsOf: at most MaxKept is kept of any pod.
func FuzzFactsOf(f *testing.F) {
	status := api.InjectionStatus{Secret: "web-tls", Service: "web", Containers: map[string]string{"app": "files,probes"}}
	f.Add(status.Format(), "secret/web-tls="+strings.Repeat("0a", 32), "said\x00no", "app\x00web", "https\x00", "web-tls\x00a,b", "Kind", uint16(3))
	f.Add(`{"containers":{"app":"flags","app":1}}`, "\xff", strings.Repeat("x", 4096), strings.Repeat("l", 300), "\x00,=", strings.Repeat("s", 253), "\u00e9", uint16(60_000))
	f.Fuzz(func(t *testing.T, status, leaf, messages, labels, ports, secrets, owner string, n uint16) {
		most := int(n) % 2048
		pod := rotatortest.ReadyPod("web", "")
		pod.Annotations = map[string]string{api.AnnotationStatus: status, api.AnnotationLeaf: leaf, api.AnnotationSecretName: secrets, api.AnnotationMode: labels, api.AnnotationOnRotate: owner}
		pod.Labels = map[string]string{api.LabelInjected: "true"}
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: owner, Kind: owner, Name: owner, UID: types.UID(owner), Controller: new(true)}}
		pod.Spec.Hostname, pod.Spec.Subdomain = labels, labels
		c := corev1.Container{Name: "app", VolumeMounts: []corev1.VolumeMount{{Name: "all", MountPath: "/v"}}, Args: pieces(ports, most)}
		names, said := pieces(labels, most), pieces(messages, most)
		var sources []corev1.VolumeProjection
		for i, secret := range pieces(secrets, most) {
			pod.Labels[names[i]+string(rune(i))] = names[i]
			sources = append(sources, corev1.VolumeProjection{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: secret}}})
			c.Ports = append(c.Ports, corev1.ContainerPort{Name: c.Args[i], ContainerPort: int32(i)})
			s := crashing(names[i], said[i])
			pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, s)
		}
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "all", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: sources}}})
		pod.Spec.Containers = []corev1.Container{c}
		var facts *Facts
		size := pod.Size()
		if err := bounded.Check(size, func() { facts = FactsOf(pod) }); err != nil {
			t.Fatal(err)
		}
		if kept(facts) > MaxKept {
			t.Fatalf("%d bytes are kept of a pod of %d", kept(facts), size)
		}
		facts.Template.Value().Pod()
	})
}
