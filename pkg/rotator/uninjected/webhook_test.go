package uninjected_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	evanphx "github.com/evanphx/json-patch/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/facts"
	"github.com/servingcert/servingcert/pkg/mutate"
	"github.com/servingcert/servingcert/pkg/mutate/choose"
	"github.com/servingcert/servingcert/pkg/mutate/jsonpatch"
	"github.com/servingcert/servingcert/pkg/mutate/reasons"
	"github.com/servingcert/servingcert/pkg/rotator/cluster"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/pkg/rotator/uninjected"
)

// readGolden returns the pod of one of the webhook's goldens and what is beside
// it.
func readGolden(t *testing.T, file string) (pod []byte, known choose.Known) {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	known.ProxyImage = "example.com/proxy"
	for _, doc := range bytes.Split(data, []byte("\n---\n")) {
		raw, err := yaml.YAMLToJSON(doc)
		require.NoError(t, err)
		var kind metav1.TypeMeta
		require.NoError(t, json.Unmarshal(raw, &kind))
		switch kind.Kind {
		case "Pod":
			pod = raw
		case "Service":
			if svc := decode[corev1.Service](t, raw); svc.Namespace == "" || svc.Namespace == "shop" {
				known.Services = append(known.Services, svc)
			} else {
				known.Elsewhere = func(namespace, name string) *corev1.Service {
					if namespace == svc.Namespace && name == svc.Name {
						return asking(t, []*corev1.Service{svc})[0]
					}
					return nil
				}
			}
		case "Namespace":
			known.Namespace = decode[corev1.Namespace](t, raw).Annotations
		case "Secret":
			secret := decode[corev1.Secret](t, raw)
			if api.IsConventional(secret.Name, secret.Type, secret.Labels) {
				known.ConventionalSecret = true
			}
		}
	}
	require.NotNil(t, pod)
	return pod, known
}

func decode[T any](t *testing.T, raw []byte) *T {
	t.Helper()
	object := new(T)
	require.NoError(t, json.Unmarshal(raw, object))
	return object
}

func patched(t *testing.T, raw []byte, patch jsonpatch.Patch) []byte {
	t.Helper()
	operations, err := patch.JSON()
	require.NoError(t, err)
	if operations == nil {
		return raw
	}
	decoded, err := evanphx.DecodePatch(operations)
	require.NoError(t, err)
	out, err := decoded.Apply(raw)
	require.NoError(t, err)
	return out
}

// The rotator and the webhook decide from different facts. They agree on every
// golden of the webhook's: what it would inject is missed as long as it has not
// been there, and nothing is missed that it has seen.
func TestMissedIsWhatTheWebhookWouldInject(t *testing.T) {
	goldens, err := filepath.Glob("../../mutate/testdata/*.in.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, goldens)
	met, drifted := map[pods.Reason]int{}, 0
	for _, file := range goldens {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".in.yaml"), func(t *testing.T) {
			raw, known := readGolden(t, file)
			pod := decode[corev1.Pod](t, raw)
			known.In = "shop"
			pod.Namespace = "shop"
			place := uninjected.Place{OptedIn: true, Services: asking(t, known.Services), Conventional: known.ConventionalSecret, Annotations: known.Namespace, Elsewhere: known.Elsewhere}
			before := uninjected.Evaluate(pods.FactsOf(pod), place)
			if !before.Missed() {
				assert.Equal(t, services(choose.Drift(pod, known)), services(before.Drift))
				drifted += len(before.Drift)
			}
			met[before.Reason]++

			patch, report, denied := mutate.Mutate(pod, known)
			if denied != nil {
				assert.NotEqual(t, uninjected.ReasonNotInjected, before.Reason, "a restart alone would not help")
				return
			}
			injected := decode[corev1.Pod](t, patched(t, raw, patch))
			injected.Namespace = "shop"
			after := uninjected.Evaluate(pods.FactsOf(injected), place)
			met[after.Reason]++
			assert.Empty(t, after.Drift, "it was created now")
			assert.False(t, after.Missed(), "missed although the webhook has seen it: %v", after)
			assert.Equal(t, wouldGetAPair(report) && before.Reason != uninjected.ReasonMounts, before.Missed(), "%v, webhook: %v", before, report)
			if wouldGetAPair(report) {
				key := pods.SecretKey(report.Secret)
				if report.PodKey {
					key = pods.PodKey
				}
				assert.Equal(t, uninjected.Choice{Key: key, Service: report.Service, Conventional: report.By == choose.ByConvention}, before.Choice)
			}
			assert.Equal(t, slices.Contains(report.Reasons(), reasons.NotServing), before.Reason == uninjected.ReasonNotServing)
			if before.Reason == uninjected.ReasonMounts {
				assert.True(t, mountsByHand(pod, report.Secret))
			}
		})
	}
	for _, reason := range []pods.Reason{
		uninjected.ReasonNotInjected, uninjected.ReasonMistake, uninjected.ReasonMounts, uninjected.ReasonExplained,
		uninjected.ReasonNotConcerned, uninjected.ReasonNotServing, pods.ReasonOptedOut, pods.ReasonMirrorPod, pods.ReasonWindows,
	} {
		assert.Positive(t, met[reason], "no golden for %s", reason)
	}
	assert.Greater(t, met[uninjected.ReasonNotInjected], 20)
	assert.Greater(t, drifted, 4)
}

// services returns what differs, without the texts, which the rotator has in fewer words.
func services(drift []choose.Difference) (out []string) {
	for _, d := range drift {
		out = append(out, string(d.Kind)+" "+d.Service)
	}
	return out
}

// wouldGetAPair reports whether the webhook chose a Secret for the pod, and had
// nothing against the pod as a whole.
func wouldGetAPair(report mutate.Report) bool {
	alone := slices.Contains([]reasons.Reason{reasons.MirrorPod, reasons.OptedOut, reasons.Windows}, report.Reason)
	return !alone && report.By != choose.ByNothing
}

func mountsByHand(pod *corev1.Pod, secret string) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.Secret != nil && v.Secret.SecretName == secret || v.Projected != nil &&
			slices.ContainsFunc(v.Projected.Sources, func(s corev1.VolumeProjection) bool { return s.Secret != nil && s.Secret.Name == secret })
	})
}

// asking returns what the rotator's cache keeps of the Services that ask for a Secret.
func asking(t *testing.T, services []*corev1.Service) []*corev1.Service {
	t.Helper()
	var out []*corev1.Service
	for _, s := range services {
		if api.Asks(s) {
			kept, err := facts.ServiceTransform(false, cluster.Keep)(s)
			require.NoError(t, err)
			out = append(out, kept.(*corev1.Service))
		}
	}
	return out
}
