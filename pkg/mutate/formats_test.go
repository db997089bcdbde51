package mutate

import (
	"slices"
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
		ask := map[string]string{api.AnnotationSecretName: "web-tls", api.FormatAnnotation(f): "true"}
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
