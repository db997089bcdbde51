package mutate

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// TestDecodingLessDecidesTheSame: over the goldens and over pods as the API
// server accepts them, with a Service and without.
func TestDecodingLessDecidesTheSame(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	require.NoError(t, err)
	files = append(files, "../../test/integration/webhook/testdata/corpus.yaml")
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Annotations: map[string]string{"servingcert.dev/secret-name": "web-tls"}},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Port: 8443}}},
	}
	pods := 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, doc := range bytes.Split(data, []byte("\n---\n")) {
			raw, err := yaml.YAMLToJSON(doc)
			require.NoError(t, err)
			whole := &corev1.Pod{}
			if json.Unmarshal(raw, whole) != nil || whole.Kind != "Pod" {
				continue
			}
			pods++
			var view PodView
			require.NoError(t, json.Unmarshal(raw, &view))
			part := view.Pod()
			for _, known := range []Known{{}, {ConventionalSecret: true}, {Services: []*corev1.Service{service}}} {
				wantPatch, wantReport, wantErr := Mutate(whole, known)
				patch, report, err := Mutate(part, known)
				require.Equal(t, wantErr, err)
				require.Equal(t, wantReport, report, file)
				want, err := wantPatch.JSON()
				require.NoError(t, err)
				got, err := patch.JSON()
				require.NoError(t, err)
				require.Equal(t, string(want), string(got), file)
			}
		}
	}
	require.Greater(t, pods, 150)
}
