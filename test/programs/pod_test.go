//go:build linux

package programs

import (
	"crypto"
	"crypto/tls"
	"encoding/json"
	"io/fs"
	"strings"
	"testing"

	evanphx "github.com/evanphx/json-patch/v5"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/hack/demo/kubelet"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate"
	"github.com/servingcert/servingcert/pkg/mutate/choose"
	"github.com/servingcert/servingcert/pkg/pki"
)

const (
	secretName = "web-tls"
	mountName  = "certificate" // in the program's directory
)

// newPod returns the pod as its owner writes it.
func newPod(s *site, p program) *corev1.Pod {
	c := corev1.Container{Name: "program", Image: p.image, Ports: []corev1.ContainerPort{{ContainerPort: int32(p.port)}}}
	if c.Image == "" {
		c.Image = "registry.example.com/shop/web:v1"
	}
	for _, token := range p.command {
		c.Command = append(c.Command, s.fill(token))
	}
	for _, token := range p.args {
		c.Args = append(c.Args, s.fill(token))
	}
	for _, v := range p.env {
		c.Env = append(c.Env, corev1.EnvVar{Name: v.Name, Value: s.fill(v.Value)})
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "web", Labels: map[string]string{"app": "web"},
			Annotations: map[string]string{api.AnnotationMountPath: s.dir + "/" + mountName},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{c}},
	}
	if p.fsGroup {
		group := int64(user)
		pod.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: &group}
	}
	return pod
}

// inject returns what the webhook makes of the pod.
func inject(t *testing.T, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Annotations: map[string]string{api.AnnotationSecretName: secretName}},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": "web"},
			Ports:    []corev1.ServicePort{{Name: "https", Port: 443, TargetPort: intstr.FromInt32(pod.Spec.Containers[0].Ports[0].ContainerPort)}},
		},
	}
	patch, report, err := mutate.Mutate(pod, choose.Known{Services: []*corev1.Service{service}})
	require.NoError(t, err)
	require.True(t, report.Injected(), "%s", report.Reason)
	before, err := json.Marshal(pod)
	require.NoError(t, err)
	ops, err := patch.JSON()
	require.NoError(t, err)
	decoded, err := evanphx.DecodePatch(ops)
	require.NoError(t, err)
	after, err := decoded.Apply(before)
	require.NoError(t, err)
	injected := &corev1.Pod{}
	require.NoError(t, json.Unmarshal(after, injected))
	require.NotEmpty(t, injected.Spec.Volumes)
	return injected
}

// runPod starts the pod's container.
func (s *site) runPod(t *testing.T, p program, pod *corev1.Pod) *process {
	t.Helper()
	c := pod.Spec.Containers[0]
	if len(c.Command) == 0 {
		c.Command = []string{p.executable} // the image's entrypoint
	}
	argv, env, err := kubelet.Command(c, nil)
	require.NoError(t, err)
	return s.start(t, s.root.install(t, p.source, p.executable), argv[1:], env)
}

// project writes the files of the pod's volume, as a kubelet does.
func (s *site) project(t *testing.T, pod *corev1.Pod, pair *tls.Certificate, bundle []byte) {
	t.Helper()
	key, err := pki.EncodeKey(pair.PrivateKey.(crypto.Signer))
	require.NoError(t, err)
	secret := map[string][]byte{corev1.TLSCertKey: pki.EncodeCertificates(pair.Leaf), corev1.TLSPrivateKeyKey: key, api.BundleKey: bundle}
	source := pod.Spec.Volumes[0].Projected
	require.NotNil(t, source)
	group := 0
	if context := pod.Spec.SecurityContext; context != nil && context.FSGroup != nil {
		group = int(*context.FSGroup)
	}
	files := map[string]kubelet.File{}
	add := func(name string, content []byte) {
		files[name] = kubelet.File{Data: content, Mode: fs.FileMode(*source.DefaultMode), Group: group}
	}
	for _, from := range source.Sources {
		switch {
		case from.Secret != nil:
			for _, item := range from.Secret.Items {
				require.Contains(t, secret, item.Key)
				add(item.Path, secret[item.Key])
			}
		case from.ConfigMap != nil:
			for _, item := range from.ConfigMap.Items {
				require.Equal(t, api.BundleKey, item.Key)
				add(item.Path, bundle)
			}
		case from.DownwardAPI != nil:
			for _, item := range from.DownwardAPI.Items {
				name, found := strings.CutPrefix(item.FieldRef.FieldPath, "metadata.annotations['")
				require.True(t, found, item.FieldRef.FieldPath)
				content, found := pod.Annotations[strings.TrimSuffix(name, "']")]
				require.True(t, found, "annotation %s", name)
				add(item.Path, []byte(content))
			}
		}
	}
	require.NoError(t, kubelet.Write(s.host(mountName), files))
}
