package mutate

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/pkg/api"
)

// TestStrippedServicesDecideTheSame: what the informers keep is all that is read.
func TestStrippedServicesDecideTheSame(t *testing.T) {
	full := func(name string, age time.Duration, change func(*corev1.Service)) *corev1.Service {
		svc := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{
				Name: name, Namespace: "shop", CreationTimestamp: metav1.NewTime(time.Unix(1e9, 0).Add(-age)),
				Annotations:   map[string]string{api.AnnotationSecretName: name + "-tls", "big": "x"},
				ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "x"}},
			},
			Spec: corev1.ServiceSpec{
				Selector: map[string]string{"app": "web"}, ClusterIP: "10.0.0.1", SessionAffinity: corev1.ServiceAffinityNone,
				Ports: []corev1.ServicePort{{Name: "https", Port: 443, TargetPort: intstr.FromInt32(8443)}, {Name: "http", Port: 80}},
			},
		}
		if change != nil {
			change(svc)
		}
		return svc
	}
	deleted := metav1.NewTime(time.Unix(1e9, 0))
	services := []*corev1.Service{
		full("a-young", 0, nil),
		full("z-old", time.Hour, nil),
		full("refused", 2*time.Hour, func(s *corev1.Service) {
			s.Status.Conditions = []metav1.Condition{{Type: api.ConditionReady, Status: metav1.ConditionFalse, Reason: "SecretConflict", Message: "not ours"}}
		}),
		full("wrong", 3*time.Hour, func(s *corev1.Service) { s.Annotations[api.AnnotationDuration] = "long" }),
		full("external", 4*time.Hour, func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeExternalName }),
		full("silent", 5*time.Hour, func(s *corev1.Service) { delete(s.Annotations, api.AnnotationSecretName) }),
		full("going", 6*time.Hour, func(s *corev1.Service) { s.DeletionTimestamp = &deleted }),
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}}
	for from := range services {
		whole, stripped := Known{Services: services[:from+1]}, Known{}
		for _, svc := range whole.Services {
			before := svc.DeepCopy()
			out, err := serviceTransform(false)(svc)
			require.NoError(t, err)
			require.Equal(t, before, svc, "the informer's object was changed")
			assert.Empty(t, out.(*corev1.Service).ManagedFields)
			assert.NotContains(t, out.(*corev1.Service).Annotations, "big")
			stripped.Services = append(stripped.Services, out.(*corev1.Service))
		}
		assert.Equal(t, Choose(pod, api.PodRequest{}, whole), Choose(pod, api.PodRequest{}, stripped), services[from].Name)
	}
}

// TestOpenShiftWords: with the flag they are as good as ours, and without it no
// words at all.
func TestOpenShiftWords(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}}
	for _, word := range []string{api.OpenShiftSecretName, api.OpenShiftSecretNameAlpha} {
		svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web", Annotations: map[string]string{word: "web-tls"}}}
		svc.Spec.Selector = pod.Labels
		for _, openShift := range []bool{false, true} {
			kept, err := serviceTransform(openShift)(svc)
			require.NoError(t, err)
			again, err := serviceTransform(openShift)(kept)
			require.NoError(t, err)
			assert.Equal(t, kept, again, "an informer may do it twice")
			l := Lookup{openShift: openShift}
			for _, list := range []*corev1.ServiceList{{Items: []corev1.Service{*svc}}, {Items: []corev1.Service{*kept.(*corev1.Service)}}} {
				choice := Choose(pod, api.PodRequest{}, l.knownServices(list))
				if openShift {
					assert.Equal(t, Choice{By: ByService, Secret: "web-tls", Service: "web", Issued: true}, choice)
				} else {
					assert.Equal(t, Choice{}, choice)
				}
			}
		}
	}
	t.Run("a mistake is told of in the words that it was made in", func(t *testing.T) {
		svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web", Annotations: map[string]string{api.OpenShiftSecretName: "A_B"}}}
		svc.Spec.Selector = pod.Labels
		kept, err := serviceTransform(true)(svc)
		require.NoError(t, err)
		notes := Choose(pod, api.PodRequest{}, Known{Services: []*corev1.Service{kept.(*corev1.Service)}}).Notes
		require.Len(t, notes, 1)
		assert.Contains(t, notes[0].Detail, api.OpenShiftSecretName+`: "A_B"`)
	})
}

// A certificate that lacks some names yet is one all the same.
func TestAServiceWhoseNamesWaitIsNotRefused(t *testing.T) {
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web", Annotations: map[string]string{api.AnnotationSecretName: "web-tls"}}}
	svc.Spec.Selector = map[string]string{"app": "web"}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: svc.Spec.Selector}}
	for facts, notes := range map[api.ReadyFacts]int{{Secret: "web-tls", Request: "x", Leaf: strings.Repeat("0", 64)}: 0, {Secret: "web-tls", Request: "x"}: 1} {
		svc.Status.Conditions = []metav1.Condition{{Type: api.ConditionReady, Status: metav1.ConditionFalse, Reason: api.ReasonWaitingForTrust, Message: facts.Message("waiting: a.example.com")}}
		kept, err := serviceTransform(false)(svc)
		require.NoError(t, err)
		assert.Len(t, Choose(pod, api.PodRequest{}, Known{Services: []*corev1.Service{kept.(*corev1.Service)}}).Notes, notes)
	}
}

func TestPointer(t *testing.T) {
	assert.Equal(t, "/metadata/annotations/a~1b~0c/0/-", pointer("metadata", "annotations", "a/b~c", 0, "-")) // RFC 6901, 3
}
