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
	"github.com/servingcert/servingcert/pkg/mutate/rules"
)

// A pod that asks for a format which its Secret does not hold has a note, and gets the other
// files; if a Service asks for it in the Secret, the pod gets its files and no note.
func TestAFormatThatTheSecretDoesNotHold(t *testing.T) {
	assert.Equal(t, rules.NoCombined, rules.NoFormat(&formats.Combined))
	for f := range formats.All().Formats() {
		ask := map[string]string{api.AnnotationSecretName: "web-tls", api.AnnotationFormats: f.Word, api.AnnotationKeystorePassword: "s3cret!"}
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "web", Annotations: ask},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "example.com/web"}}},
		}
		svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web", Annotations: ask}}
		for held, known := range map[bool]choose.Known{false: {}, true: {Services: []*corev1.Service{svc}}} {
			patch, report, err := Mutate(pod, known)
			require.NoError(t, err, f.Name)
			assert.Equal(t, !held, slices.Contains(report.Reasons(), rules.NoFormat(f)), f.Name)
			assert.NotEmpty(t, rules.Of(rules.NoFormat(f)).Do, f.Name)
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

// A program that only a person can tell which file to read says how the file comes.
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
