package choose

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate/reasons"
)

// TestPreferences has a row for each comparison: the first Service is preferred, although
// all later comparisons prefer the second.
func TestPreferences(t *testing.T) {
	second := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	service := func(name string, after time.Duration, clusterIP, port string) *corev1.Service {
		return &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{
				Name: name, CreationTimestamp: metav1.NewTime(second.Add(after)),
				Annotations: map[string]string{api.AnnotationSecretName: name + "-tls"},
			},
			Spec: corev1.ServiceSpec{
				ClusterIP: clusterIP, Selector: map[string]string{"app": "web"},
				Ports: []corev1.ServicePort{{Name: port, Port: 443, TargetPort: intstr.FromInt32(8443)}},
			},
		}
	}
	const none, ip = corev1.ClusterIPNone, "10.0.0.7"
	for _, tt := range []struct {
		name          string
		first, second *corev1.Service
		because       string
	}{
		{"age", service("z-metrics", 0, none, "metrics"), service("a", time.Second, ip, "https"), "is older than a"},
		{"clients, although headless", service("z-headless", 0, none, "https"), service("a-metrics", 0, ip, "https-metrics"), "has a port for clients, unlike a-metrics"},
		{"headless", service("z", 0, ip, "https"), service("a-headless", 0, none, "https"), "is not headless, unlike a-headless"},
		{"headless, both for metrics", service("z-metrics", 0, ip, "metrics"), service("a-metrics", 0, none, "metrics"), "is not headless, unlike a-metrics"},
		{"name", service("a", 0, ip, "https"), service("z", 0, ip, "https"), "is as old as z and comes first by name"},
		{"not created yet", service("z", 0, "", "https"), service("a", 0, none, "https"), "is not headless, unlike a"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}}
			for _, services := range [][]*corev1.Service{{tt.first, tt.second}, {tt.second, tt.first}} {
				c := Secret(pod, api.PodRequest{}, Known{Services: services})
				assert.Equal(t, tt.first.Name, c.Service)
				assert.Equal(t, tt.first.Name+"-tls", c.Secret)
				require.Len(t, c.Notes, 1)
				want := "Service " + tt.first.Name + " (Secret " + c.Secret + ") " + tt.because
				assert.Equal(t, reasons.Note{Reason: reasons.SeveralServices, Detail: want}, c.Notes[0])
			}
			shared := tt.second.DeepCopy()
			shared.Annotations[api.AnnotationSecretName] = tt.first.Name + "-tls"
			c := Secret(pod, api.PodRequest{}, Known{Services: []*corev1.Service{shared, tt.first}})
			assert.Equal(t, tt.first.Name, c.Service)
			assert.Empty(t, c.Notes, "both ask for the same Secret")
		})
	}
}

// TestPreferencesAreAnOrder: the same Service decides in any order of the Services.
func TestPreferencesAreAnOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		services := rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) *corev1.Service {
			s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "name")}}
			s.CreationTimestamp = metav1.NewTime(time.Unix(rapid.Int64Range(1, 2).Draw(t, "second"), 0))
			s.Spec.ClusterIP = rapid.SampledFrom([]string{"", "None"}).Draw(t, "clusterIP")
			s.Spec.Ports = []corev1.ServicePort{{Name: rapid.SampledFrom([]string{"https", "metrics"}).Draw(t, "port")}}
			return s
		}), 1, 4, func(s *corev1.Service) string { return s.Name }).Draw(t, "services")
		want := slices.SortedFunc(slices.Values(services), preferred)
		got := slices.SortedFunc(slices.Values(rapid.Permutation(services).Draw(t, "found")), preferred)
		if !slices.Equal(want, got) {
			t.Fatalf("%v, %v", want, got)
		}
		for i := 1; i < len(want); i++ {
			if want[i].CreationTimestamp.Before(&want[i-1].CreationTimestamp) {
				t.Fatalf("%s is preferred to the older %s", want[i-1].Name, want[i].Name)
			}
		}
	})
}

// TestDocumentationOfAdminPorts compares the words in docs/injection.md with the code.
func TestDocumentationOfAdminPorts(t *testing.T) {
	data, err := os.ReadFile("../../../docs/injection.md")
	require.NoError(t, err)
	_, words, ok := strings.Cut(string(data), "as in `http-metrics`:")
	require.True(t, ok)
	words, _, _ = strings.Cut(words, ". The name")
	for word := range strings.SplitSeq(words, ",") {
		word = strings.Trim(word, " `\n")
		svc := &corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http-" + word}}}}
		assert.True(t, api.AdminOnly(svc), word)
	}
	assert.Equal(t, 16, strings.Count(words, ",")+1)
}
