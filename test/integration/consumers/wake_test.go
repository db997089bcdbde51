package consumers

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// read returns the pod as it is now.
func read(t *testing.T, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	now := &corev1.Pod{}
	require.NoError(t, admin.Get(t.Context(), client.ObjectKeyFromObject(pod), now))
	return now
}

// wokenFor waits until the pods say that they were woken for the leaf of web-tls.
func wokenFor(t *testing.T, leaf string, pods ...*corev1.Pod) {
	t.Helper()
	want := api.Mounted{Leaves: map[string]string{"web-tls": leaf}}.String()
	harness.Eventually(t, func() error {
		for _, pod := range pods {
			if got := read(t, pod).Annotations[api.AnnotationLeaf]; got != want {
				return fmt.Errorf("%s of pod %s is %q, want %q", api.AnnotationLeaf, pod.Name, got, want)
			}
		}
		return nil
	})
}

// wakes is how many pods the rotator has written, with a result.
func (r running) wakes(t *testing.T, result string) int {
	t.Helper()
	return int(r.Metrics(t).Sum("servingcert_wakes_total", "result", result))
}

// written waits until so many pods were woken by what is counted, which it is a moment after
// they can be seen to be, and sees that there are no more.
func (r running) written(t *testing.T, want int) {
	t.Helper()
	harness.Eventually(t, func() error {
		if n := r.wakes(t, "written"); n < want {
			return fmt.Errorf("%d of %d writes were counted", n, want)
		}
		return nil
	})
	assert.Equal(t, want, r.wakes(t, "written"))
}

// aSecondLater waits until the clock shows the next second: times of creation have no
// parts of it.
func aSecondLater(t *testing.T) {
	t.Helper()
	now := time.Now().Unix()
	harness.Eventually(t, func() error {
		if time.Now().Unix() == now {
			return fmt.Errorf("it is still %d", now)
		}
		return nil
	})
}

func TestPodsAreWokenOnceForARotation(t *testing.T) {
	// A pod is dialled for the first time within a fifth of the pause, and after a
	// change, if it is not woken, no earlier than after half of it: longer than becomes
	// waits. So the rotator first sees the pods by a clock that is behind. In a hundred hours no
	// pod's turn comes within the seconds that the clock is.
	var clock harness.Clock
	const pause = 500 * time.Hour
	slow := func(c *rotator.Config) {
		c.Cluster.Now = clock.Now
		c.Serving.Pause, c.Serving.PropagationTime, c.Serving.Interval = pause, 12*pause, 12*pause
	}
	clock.Set(time.Now().Add(-pause / 5))
	r := startRotator(t, slow)
	s := newShop(t, 3)
	r.counts(t, s.ns, map[string]int{"pending": 3})
	clock.Set(time.Now())
	terminating := newPod(t, s.ns, "web-abc-pending", "web") // a new pod has the rotator look at all
	becomes(t, s.svc, metav1.ConditionTrue, api.ServingCurrent)
	assert.NotContains(t, read(t, s.pods[0]).Annotations, api.AnnotationLeaf, "nothing was rotated")

	renewed := issue(t, ours, time.Now(), name(s.svc))
	for i, server := range s.servers {
		server.onceWoken(s.pods[i], s.pair, renewed)
	}
	issued(t, s.svc, renewed)
	at := time.Now()
	wokenFor(t, fingerprint(renewed), s.pods...)
	t.Logf("three pods were woken %s after the condition was written", time.Since(at).Round(time.Millisecond))
	becomes(t, s.svc, metav1.ConditionTrue, api.ServingCurrent)
	r.written(t, 3)
	assert.NotContains(t, read(t, terminating).Annotations, api.AnnotationLeaf, "it does not run")

	aSecondLater(t)
	later := newPod(t, s.ns, "web-abc-later", "web")
	isReady(t, later, s.servers[0].at.Addr(), true)
	r.Stop()
	missed, others := s.pods[0], slices.Concat(s.pods[1:], []*corev1.Pod{later})
	require.NoError(t, admin.Patch(t.Context(), missed.DeepCopy(), client.RawPatch(types.JSONPatchType, []byte(`[{"op":"remove","path":"/metadata/annotations"}]`))))
	versions := map[string]string{}
	for _, pod := range others {
		versions[pod.Name] = read(t, pod).ResourceVersion
	}
	r = startRotator(t, slow) // which does not know what the pods serve, only what they were woken for
	wokenFor(t, fingerprint(renewed), missed)
	r.counts(t, s.ns, map[string]int{"pending": 4, "not_ready": 1})
	r.written(t, 1)
	for _, pod := range others {
		assert.Equal(t, versions[pod.Name], read(t, pod).ResourceVersion, "a new leader writes nothing twice: %s", pod.Name)
	}

	r.Stop()
	renewed = s.renew(t)
	r = startRotator(t, slow)
	wokenFor(t, fingerprint(renewed), append(s.pods, later)...)
	r.written(t, 4) // a new leader wakes pods for what changed while there was none
}

func TestWhatAPodServesAlreadyIsNotWritten(t *testing.T) {
	r := startRotator(t, func(c *rotator.Config) { c.KubeletSync.Enabled = false })
	s := newShop(t, 1)
	becomes(t, s.svc, metav1.ConditionTrue, api.ServingCurrent)
	renewed := s.renew(t)
	s.servers[0].pair.Store(renewed)
	becomes(t, s.svc, metav1.ConditionTrue, api.ServingCurrent)
	assert.NotContains(t, read(t, s.pods[0]).Annotations, api.AnnotationLeaf, "--wake=false")
	assert.Empty(t, r.Metrics(t).With("servingcert_wakes_total"))
}

// Pods are woken also where nobody dials.
func TestPodsAreWokenWithoutDials(t *testing.T) {
	r := startRotator(t, func(c *rotator.Config) { c.Serving.Verify = false })
	s := newShop(t, 1)
	first := newShop(t, 1) // once its pods are woken, the rotator has seen the other's first certificate
	harness.Eventually(t, func() error {
		first.renew(t)
		if read(t, first.pods[0]).Annotations[api.AnnotationLeaf] == "" {
			return fmt.Errorf("not woken yet")
		}
		return nil
	})
	assert.NotContains(t, read(t, s.pods[0]).Annotations, api.AnnotationLeaf)
	renewed := s.renew(t)
	wokenFor(t, fingerprint(renewed), s.pods...)
	assert.Nil(t, serving(t, s.svc))
	harness.Eventually(t, func() error {
		if r.wakes(t, "written") == 0 {
			return fmt.Errorf("no write was counted")
		}
		return nil
	})
}

func TestPodsAreWokenForTheBundle(t *testing.T) {
	r := startRotator(t)
	namespace := harness.NewNamespace(t, admin, "shop-", true)
	bundle := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: api.BundleName}, Data: map[string]string{api.BundleKey: bundleOfOurs()}}
	mounts := func(name string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}}}
		}
	}
	client1, other := newPod(t, namespace, "client", "client", mounts(api.BundleName)), newPod(t, namespace, "other", "other", mounts("settings"))
	for _, pod := range []*corev1.Pod{client1, other} {
		isReady(t, pod, nextAddress(), true)
	}
	aSecondLater(t)
	create(t, bundle)
	said := func() string { return read(t, client1).Annotations[api.AnnotationLeaf] }
	harness.Eventually(t, func() error {
		if said() == "" {
			return fmt.Errorf("not woken")
		}
		return nil
	})
	before := said()
	r.written(t, 1)
	require.NoError(t, admin.Patch(t.Context(), bundle, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`))))
	require.NoError(t, admin.Patch(t.Context(), bundle, client.RawPatch(types.MergePatchType, []byte(`{"data":{"ca.crt":"another"}}`))))
	harness.Eventually(t, func() error {
		if got := said(); got == before {
			return fmt.Errorf("still %q", got)
		}
		return nil
	})
	r.written(t, 2)
	assert.NotContains(t, read(t, other).Annotations, api.AnnotationLeaf)
}

// A write that is refused is tried again, and holds up no others.
func TestPodsAreWokenWhenThatIsAllowedAgain(t *testing.T) {
	r := startRotator(t, func(c *rotator.Config) { c.KubeletSync.Retry = 50 * time.Millisecond })
	refused, other := newShop(t, 1), newShop(t, 1)
	becomes(t, refused.svc, metav1.ConditionTrue, api.ServingCurrent)
	becomes(t, other.svc, metav1.ConditionTrue, api.ServingCurrent)
	refuse(t, refused.ns)
	harness.Eventually(t, func() error {
		err := admin.Patch(t.Context(), refused.pods[0].DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`)), client.DryRunAll)
		if err == nil {
			return fmt.Errorf("nothing refuses it yet")
		}
		return nil
	})
	leaf := fingerprint(refused.renew(t))
	harness.Eventually(t, func() error {
		if n := r.wakes(t, "forbidden") + r.wakes(t, "error"); n < 2 {
			return fmt.Errorf("%d writes were refused", n)
		}
		return nil
	})
	wokenFor(t, fingerprint(other.renew(t)), other.pods...)
	require.NoError(t, admin.DeleteAllOf(t.Context(), &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}, client.MatchingLabels{"refuses": refused.ns}))
	wokenFor(t, leaf, refused.pods...)
	r.written(t, 2)
}

// refuse has every change of a pod in the namespace refused.
func refuse(t *testing.T, namespace string) {
	t.Helper()
	meta := metav1.ObjectMeta{Name: "refuse-" + namespace, Labels: map[string]string{"refuses": namespace}}
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: meta, Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
			RuleWithOperations: admissionregistrationv1.RuleWithOperations{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Update},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
			},
		}}},
		Validations: []admissionregistrationv1.Validation{{Expression: "object.metadata.namespace != '" + namespace + "'"}},
	}}
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: meta, Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: meta.Name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
	}}
	t.Cleanup(func() {
		require.NoError(t, harness.Remove[client.Object](context.WithoutCancel(t.Context()), admin, binding, policy))
	})
	require.NoError(t, admin.Create(t.Context(), policy))
	require.NoError(t, admin.Create(t.Context(), binding))
}
