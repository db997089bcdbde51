package mutate

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/formats"
	"github.com/servingcert/servingcert/pkg/mutate/choose"
	"github.com/servingcert/servingcert/pkg/mutate/reasons"
)

// A pod that requests a format which its Secret does not hold gets a note and the other files; if
// a Service requests the format in the Secret, the pod gets its files and no note.
func TestAFormatThatTheSecretDoesNotHold(t *testing.T) {
	assert.Equal(t, reasons.NoCombined, reasons.NoFormat(&formats.Combined))
	for f := range formats.Asked().Formats() {
		ask := map[string]string{api.AnnotationSecretName: "web-tls", api.AnnotationFormats: f.Word, api.AnnotationKeystorePassword: "s3cret!"}
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "web", Annotations: ask},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "example.com/web"}}},
		}
		svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web", Annotations: ask}}
		for held, known := range map[bool]choose.Known{false: {}, true: {Services: []*corev1.Service{svc}}} {
			patch, report, err := Mutate(pod, known)
			require.NoError(t, err, f.Name)
			assert.Equal(t, !held, slices.Contains(report.Reasons(), reasons.NoFormat(f)), f.Name)
			assert.NotEmpty(t, reasons.Of(reasons.NoFormat(f)).Do, f.Name)
			volume := patched(t, pod, patch).Spec.Volumes[0].Projected
			for _, file := range f.Files {
				assert.Equal(t, held, projectsFile(volume, file), file)
			}
			assert.True(t, projectsFile(volume, corev1.TLSPrivateKeyKey), f.Name)
			env := patched(t, pod, patch).Spec.Containers[0].Env
			if f.Variable != "" {
				assert.Equal(t, held, slices.Contains(env, corev1.EnvVar{Name: f.Variable, Value: api.DefaultMountPath + "/" + f.Files[0]}), f.Name)
			}
			assert.Equal(t, held && f.Password, slices.Contains(env, corev1.EnvVar{Name: api.EnvKeystorePassword, Value: "s3cret!"}), f.Name)
		}
	}
}

func projectsFile(volume *corev1.ProjectedVolumeSource, file string) bool {
	for _, s := range volume.Sources {
		if s.Secret != nil && slices.Contains(s.Secret.Items, corev1.KeyToPath{Key: file, Path: file}) {
			return true
		}
	}
	return false
}

// The note about a program that only a person can configure describes how to get the file.
func TestAProgramThatNeedsMoreNamesItsFormat(t *testing.T) {
	ask := map[string]string{api.AnnotationSecretName: "web-tls", api.AnnotationFormats: formats.Combined.Word}
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web", Annotations: ask}}
	for asks, want := range map[bool]string{
		false: `Write "bind :8443 ssl crt /etc/servingcert/tls-combined.pem" in a frontend of haproxy.cfg. For the file set servingcert.dev/formats: combined.pem on the Service and on the pod.`,
		true:  `Write "bind :8443 ssl crt /etc/servingcert/tls-combined.pem" in a frontend of haproxy.cfg.`,
	} {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "web", Annotations: map[string]string{api.AnnotationSecretName: "web-tls"}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "haproxy:3"}}},
		}
		if asks {
			pod.Annotations = ask
		}
		patch, _, err := Mutate(pod, choose.Known{Services: []*corev1.Service{svc}})
		require.NoError(t, err)
		var said api.InjectionStatus
		require.NoError(t, json.Unmarshal([]byte(patched(t, pod, patch).Annotations[api.AnnotationStatus]), &said))
		notes := strings.Join(said.Notes, "\n")
		assert.Contains(t, notes, want)
		assert.Equal(t, asks, !strings.Contains(notes, "For the file set"), notes)
	}
}

// The notes of a client, and of a pod that makes its key, describe how to get a truststore.
func TestATruststoreWithoutASecret(t *testing.T) {
	pod := func(annotations map[string]string) *corev1.Pod {
		annotations[api.AnnotationFormats] = "truststore.p12,keystore.p12"
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: map[string]string{"app": "web"}, Annotations: annotations},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "example.com/web", Ports: []corev1.ContainerPort{{ContainerPort: 8443}}}}},
		}
	}
	makesKey := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Annotations: map[string]string{api.AnnotationSecretName: "web-tls", api.AnnotationKeySource: string(api.KeySourcePod)}},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Port: 8443}}},
	}
	for name, c := range map[string]struct {
		pod      *corev1.Pod
		known    choose.Known
		keystore string
	}{
		"a client":    {pod(map[string]string{api.AnnotationTrust: "true"}), choose.Known{}, "the pod gets no certificate"},
		"its own key": {pod(map[string]string{}), choose.Known{Services: []*corev1.Service{makesKey}}, "a kubelet that makes the key does not write it"},
	} {
		t.Run(name, func(t *testing.T) {
			patch, report, err := Mutate(c.pod, c.known)
			require.NoError(t, err)
			assert.Contains(t, report.Reasons(), reasons.NoFormat(&formats.Truststore))
			var said api.InjectionStatus
			require.NoError(t, json.Unmarshal([]byte(patched(t, c.pod, patch).Annotations[api.AnnotationStatus]), &said))
			notes := strings.Join(said.Notes, "\n")
			assert.Contains(t, notes, "set the annotation on the Namespace, and mount that key of ConfigMap servingcert-ca.crt")
			assert.Contains(t, notes, c.keystore)
			assert.False(t, projectsFile(patched(t, c.pod, patch).Spec.Volumes[0].Projected, formats.TruststoreFile))
		})
	}
}
