package api

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var update = flag.Bool("update", false, "write deploy/chart/annotations.json")

// TestTheChartHasTheShapes: the API server checks what the parsers check.
func TestTheChartHasTheShapes(t *testing.T) {
	const file = "../../deploy/chart/annotations.json"
	var lines []string
	all := Shapes()
	for _, key := range slices.Sorted(maps.Keys(all)) {
		shape, err := json.Marshal(all[key])
		require.NoError(t, err)
		lines = append(lines, fmt.Sprintf("%q: %s", key, shape))
	}
	want := "{\n" + strings.Join(lines, ",\n") + "\n}\n"
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(want), 0o644))
	}
	got, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, want, string(got), "run make generate")
}

// TestEveryAnnotationHasAShape: on every place where it means something.
func TestEveryAnnotationHasAShape(t *testing.T) {
	all := Shapes()
	for _, place := range []Place{OnService, OnPod, OnNamespace} {
		for _, key := range place.Annotations() {
			assert.Contains(t, all[key].On, place, key)
		}
	}
	for key, shape := range all {
		assert.NotEmpty(t, shape.On, key)
		assert.Positive(t, shape.MaxBytes, key)
	}
}

// TestTheParsersCheckTheShape: what the API server refuses, every parser refuses.
func TestTheParsersCheckTheShape(t *testing.T) {
	for key, shape := range Shapes() {
		for _, value := range []string{"\x01", "x y", strings.Repeat("x", shape.MaxBytes+1), strings.Repeat(",", shape.MaxEntries)} {
			if checkShape(key, value) == "" {
				require.Equal(t, AnnotationMountPath, key, value)
				continue
			}
			annotations := map[string]string{key: value}
			if slices.Contains(shape.On, OnService) {
				svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Annotations: map[string]string{AnnotationSecretName: "web-tls", key: value}}}
				_, errs := ParseSettings(annotations)
				_, probe := ParseProbe(svc)
				_, _, clients := Clients(svc)
				problems := append(Problems(svc, DefaultLimits()), errs...)
				assert.True(t, len(problems) > 0 || probe != nil || clients != nil, "%s=%s", key, value)
			}
			if slices.Contains(shape.On, OnPod) {
				assert.NotEmpty(t, PodProblems(&metav1.ObjectMeta{Annotations: annotations}), "%s=%s", key, value)
			}
			if slices.Contains(shape.On, OnNamespace) {
				_, errs := ParseSettings(annotations)
				assert.NotEmpty(t, errs, "%s=%s", key, value)
			}
		}
	}
}
