package admission

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/facts"
	"github.com/servingcert/servingcert/pkg/mutate/choose"
)

func transform(openShift bool) toolscache.TransformFunc {
	return facts.ServiceTransform(openShift, keptOfService)
}

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
		full("b-headless", 90*time.Minute, func(s *corev1.Service) { s.Spec.ClusterIP = corev1.ClusterIPNone }),
		full("c-metrics", 90*time.Minute, func(s *corev1.Service) { s.Spec.Ports[0].Name, s.Spec.Ports = "https-metrics", s.Spec.Ports[:1] }),
		full("d", 90*time.Minute, nil),
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
		whole, stripped := choose.Known{Services: services[:from+1]}, choose.Known{}
		for _, svc := range whole.Services {
			before := svc.DeepCopy()
			out, err := transform(false)(svc)
			require.NoError(t, err)
			require.Equal(t, before, svc, "the informer's object was changed")
			assert.Empty(t, out.(*corev1.Service).ManagedFields)
			assert.NotContains(t, out.(*corev1.Service).Annotations, "big")
			stripped.Services = append(stripped.Services, out.(*corev1.Service))
		}
		assert.Equal(t, choose.Secret(pod, api.PodRequest{}, whole), choose.Secret(pod, api.PodRequest{}, stripped), services[from].Name)
	}
}

// TestOpenShiftAnnotations: with the flag they count as ours do, and without it they
// mean nothing.
func TestOpenShiftAnnotations(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}}
	for _, key := range []string{api.OpenShiftSecretName, api.OpenShiftSecretNameAlpha} {
		svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web", Annotations: map[string]string{key: "web-tls"}}}
		svc.Spec.Selector = pod.Labels
		for _, openShift := range []bool{false, true} {
			kept, err := transform(openShift)(svc)
			require.NoError(t, err)
			again, err := transform(openShift)(kept)
			require.NoError(t, err)
			assert.Equal(t, kept, again, "an informer may do it twice")
			live, err := NewLookup(nothing{}, holding{svc}, func() bool { return true }, openShift).liveServices(t.Context(), "shop")
			require.NoError(t, err)
			for _, services := range [][]*corev1.Service{live, {kept.(*corev1.Service)}} {
				choice := choose.Secret(pod, api.PodRequest{}, choose.Known{Services: services})
				if openShift {
					assert.Equal(t, choose.Choice{By: choose.ByService, Secret: "web-tls", Service: "web", Requested: true, Issued: true}, choice)
				} else {
					assert.Equal(t, choose.Choice{}, choice)
				}
			}
		}
	}
	t.Run("a note names the annotation that was written", func(t *testing.T) {
		svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web", Annotations: map[string]string{api.OpenShiftSecretName: "A_B"}}}
		svc.Spec.Selector = pod.Labels
		kept, err := transform(true)(svc)
		require.NoError(t, err)
		notes := choose.Secret(pod, api.PodRequest{}, choose.Known{Services: []*corev1.Service{kept.(*corev1.Service)}}).Notes
		require.Len(t, notes, 1)
		assert.Contains(t, notes[0].Detail, api.OpenShiftSecretName+`: "A_B"`)
	})
}

// A certificate that lacks some names yet is one all the same.
func TestAServiceWhoseNamesWaitIsNotRefused(t *testing.T) {
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web", Annotations: map[string]string{api.AnnotationSecretName: "web-tls"}}}
	svc.Spec.Selector = map[string]string{"app": "web"}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: svc.Spec.Selector}}
	for leaf, notes := range map[string]int{strings.Repeat("0", 64): 0, "": 1} {
		waiting := metav1.Condition{Type: api.ConditionReady, Status: metav1.ConditionFalse, Reason: api.ReasonWaitingForTrust, Message: "waiting: a.example.com"}
		svc.Status.Conditions = state.Say(waiting, state.Ready{Secret: "web-tls", Request: "x", Leaf: leaf}).Both()
		kept, err := transform(false)(svc)
		require.NoError(t, err)
		assert.Len(t, choose.Secret(pod, api.PodRequest{}, choose.Known{Services: []*corev1.Service{kept.(*corev1.Service)}}).Notes, notes)
	}
}

// holding is an API server with these Services.
type holding []*corev1.Service

func (holding) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return nil
}

func (h holding) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	for _, svc := range h {
		into.(*corev1.ServiceList).Items = append(into.(*corev1.ServiceList).Items, *svc)
	}
	return nil
}

// A Service that is too large selects no pod, wherever it is read from, and the pod that it might
// have selected has a note.
func TestAServiceThatIsTooLargeSelectsNoPod(t *testing.T) {
	selector := map[string]string{"app": "web"}
	for i := range 20_000 {
		selector[fmt.Sprintf("label-%d", i)] = "x"
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: selector}}
	large := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "large", Annotations: map[string]string{api.AnnotationSecretName: api.ConventionalSecretName}}}
	large.Spec.Selector = selector
	kept, err := transform(false)(large)
	require.NoError(t, err)
	live, err := NewLookup(nothing{}, holding{large}, func() bool { return true }, false).liveServices(t.Context(), "shop")
	require.NoError(t, err)
	for name, tc := range map[string]struct {
		service *corev1.Service
		says    string
	}{
		"in a cache": {kept.(*corev1.Service), `Service large: spec.selector: "20001 labels": must be at most 64`},
		"read":       {live[0], `Service large: spec.selector: "20001 labels": must be at most 64`},
		"as it is":   {large, `Service large: spec.selector: "20001 labels": must be at most 64`},
	} {
		choice := choose.Secret(pod, api.PodRequest{}, choose.Known{Services: []*corev1.Service{tc.service}, ConventionalSecret: tc.service.Name == "large"})
		assert.Equal(t, choose.ByNothing, choice.By, name)
		if assert.Len(t, choice.Notes, 1, name) {
			assert.Contains(t, choice.Notes[0].String(), tc.says, name)
		}
		small := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "small", Annotations: map[string]string{api.AnnotationSecretName: "web-tls"}}}
		small.Spec.Selector = map[string]string{"app": "web"}
		both := choose.Secret(pod, api.PodRequest{}, choose.Known{Services: []*corev1.Service{tc.service, small}})
		assert.Equal(t, "web-tls", both.Secret, name)
	}
	assert.Empty(t, kept.(*corev1.Service).Spec.Selector)
}
