package mutate

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate/choose"
)

// withPodKeys returns what is known, with Services whose pods make their keys.
func withPodKeys(known choose.Known) choose.Known {
	services := known.Services
	known.Services = nil
	for _, svc := range services {
		svc = svc.DeepCopy()
		if _, asks := api.Wants(svc); asks && svc.Annotations != nil {
			svc.Annotations[api.AnnotationKeySource] = string(api.KeySourcePod)
		}
		known.Services = append(known.Services, svc)
	}
	return known
}

// withoutPair returns the pod as YAML without the parts that depend on the key source.
func withoutPair(t *testing.T, pod *corev1.Pod) string {
	t.Helper()
	delete(pod.Annotations, api.AnnotationStatus)
	for _, v := range pod.Spec.Volumes {
		if v.Projected == nil {
			continue
		}
		v.Projected.Sources = slices.DeleteFunc(v.Projected.Sources, func(s corev1.VolumeProjection) bool {
			return s.PodCertificate != nil || s.Secret != nil && s.Secret.Optional == nil
		})
	}
	out, err := yaml.Marshal(pod)
	require.NoError(t, err)
	return string(out)
}

// notSwitched are the goldens in which more than the source of the pair changes with
// the annotation, and why.
var notSwitched = map[string]string{
	"combined-not-in-the-secret":    "a kubelet writes the file, so there is a variable for it",
	"proxy-other-secret":            "the ports of both Services have a certificate then",
	"trap04-volume-there":           "the volume that is there is of the Secret",
	"trap08-sidecar-added-later":    "so is the one of the first pass",
	"trap09-impossible-secret-name": "no Secret, no name of one",
}

// TestAPodIsTheSameWhereverItsKeyIsMade: switching the key source is one annotation. In every
// golden, the containers, flags, variables, mounts and probes are the same with a Secret and
// with a pod key.
func TestAPodIsTheSameWhereverItsKeyIsMade(t *testing.T) {
	switched := 0
	for _, in := range goldens(t) {
		name := strings.TrimSuffix(filepath.Base(in), ".in.yaml")
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(in)
			require.NoError(t, err)
			s := readScene(t, data)
			before := pass(t, decodePod(t, s.pod), s.known)
			after := pass(t, decodePod(t, s.pod), withPodKeys(s.known))
			_, report, err := Mutate(decodePod(t, s.pod), withPodKeys(s.known))
			if err != nil || !report.PodKey || !report.Injected() {
				return
			}
			if why, differs := notSwitched[name]; differs {
				assert.NotEqual(t, withoutPair(t, before), withoutPair(t, after), why)
				return
			}
			assert.Equal(t, withoutPair(t, before), withoutPair(t, after))
			switched++
		})
	}
	assert.Greater(t, switched, 60)
}
