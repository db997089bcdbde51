package decode

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/servingcert/servingcert/pkg/mutate"
	"github.com/servingcert/servingcert/pkg/mutate/choose"
	"github.com/servingcert/servingcert/test/bounded"
)

// TestDecodingLessDecidesTheSame: over the goldens and over pods as the API
// server accepts them, with a Service and without.
func TestDecodingLessDecidesTheSame(t *testing.T) {
	files, err := filepath.Glob("../testdata/*.yaml")
	require.NoError(t, err)
	files = append(files, "../../../test/integration/webhook/testdata/corpus.yaml")
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Annotations: map[string]string{"servingcert.dev/secret-name": "web-tls"}},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Port: 8443}}},
	}
	proxied := service.DeepCopy()
	proxied.Spec.Ports[0].TargetPort = intstr.FromString("sc-tls-8080")
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
			var view View
			require.NoError(t, json.Unmarshal(raw, &view))
			part := view.Pod()
			for _, known := range []choose.Known{{}, {ConventionalSecret: true}, {Services: []*corev1.Service{service}}, {Services: []*corev1.Service{proxied}, Config: choose.Config{ProxyImage: "registry.example/servingcert-proxy:v1", ProxyPullSecrets: []string{"r", "registry"}}}} {
				wantPatch, wantReport, wantErr := mutate.Mutate(whole, known)
				patch, report, err := mutate.Mutate(part, known)
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

// TestALongListIsNotDecoded: a container of three bytes in JSON has hundreds decoded.
func TestALongListIsNotDecoded(t *testing.T) {
	for _, list := range []string{"containers", "initContainers", "volumes"} {
		body := []byte(`{"spec":{"` + list + `":[` + strings.Repeat("{},", 100_000) + `{}]}}`)
		var lists Lists
		var err error
		assert.Less(t, bounded.Allocated(func() { err = json.Unmarshal(body, &lists) }), uint64(len(body)), list)
		require.ErrorContains(t, err, "100001 ")
		require.ErrorContains(t, err, "must be at most 1000")
	}
	for text, n := range map[string]int{`[]`: 1, `null`: 1, `[{}]`: 1, `[{},{}]`: 2, `[{"a":[1,2,"],"]},{"b":"\\\",["}]`: 2, `["\\",[],{}]`: 3} {
		require.True(t, json.Valid([]byte(text)), text)
		assert.Equal(t, n, elementsOf([]byte(text)), text)
	}
}
