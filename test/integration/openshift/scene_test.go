package openshift

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	uninjectedcontroller "github.com/servingcert/servingcert/pkg/rotator/uninjected/controller"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// hasFlags waits until all of the scheduler's pods have the two flags, or none.
func hasFlags(t *testing.T, namespace string, want bool) {
	t.Helper()
	flags := []string{"--tls-cert-file=/etc/servingcert/tls.crt", "--tls-private-key-file=/etc/servingcert/tls.key"}
	command := []string{"kube-scheduler", "--config=/etc/kubernetes/scheduler.yaml", "--secure-port=10259", "--leader-elect=true"}
	eventually(t, func() error {
		for _, pod := range podsOf(t, namespace, "kube-scheduler", 2) {
			c := pod.Spec.Containers[0]
			if !slices.Equal(c.Command, command) {
				return fmt.Errorf("the command is %q", c.Command)
			}
			if want != slices.Equal(c.Args, flags) || !want && len(c.Args) > 0 {
				return fmt.Errorf("the args of %s are %q", pod.Name, c.Args)
			}
			if got := slices.ContainsFunc(pod.Spec.Volumes, holdsTheSecret); got != want {
				return fmt.Errorf("that %s has the Secret in a volume is %t", pod.Name, got)
			}
		}
		return nil
	})
}

func holdsTheSecret(v corev1.Volume) bool {
	return v.Projected != nil && slices.ContainsFunc(v.Projected.Sources, func(s corev1.VolumeProjection) bool {
		return s.Secret != nil && s.Secret.Name == api.ConventionalSecretName
	})
}

// Secret serving-cert in a namespace, whoever made it: pods there get the two
// flags. Without it they do not; where it comes later an event says so, and the
// next pods have them.
func TestTheKubeSchedulerScene(t *testing.T) {
	ns := harness.NewNamespace(t, admin, "scheduling", true)
	apply(t, "kube-scheduler.yaml", ns)
	hasFlags(t, ns, false)

	secret := harness.SomebodysPair(t, ns)
	require.NoError(t, admin.Create(t.Context(), secret))
	var told eventsv1.Event
	eventually(t, func() error {
		var list eventsv1.EventList
		if err := admin.List(t.Context(), &list, client.InNamespace(ns)); err != nil {
			return err
		}
		for _, e := range list.Items {
			if e.Reason == uninjectedcontroller.EventMissed {
				told = e
				return nil
			}
		}
		return fmt.Errorf("no event %s among %d", uninjectedcontroller.EventMissed, len(list.Items))
	})
	assert.Equal(t, "Deployment kube-scheduler", told.Regarding.Kind+" "+told.Regarding.Name)
	assert.Contains(t, told.Note, "2 pods (kube-scheduler-")
	assert.Contains(t, told.Note, "were not injected with Secret serving-cert, which every new pod with a port gets in this namespace: ")
	assert.Contains(t, told.Note, "; restart it: kubectl rollout restart deployment/kube-scheduler -n "+ns)
	hasFlags(t, ns, false)

	newPodsMount(t, ns, true)
	restart(t, ns, "kube-scheduler")
	hasFlags(t, ns, true)

	require.NoError(t, admin.Delete(t.Context(), secret))
	newPodsMount(t, ns, false)
	restart(t, ns, "kube-scheduler")
	hasFlags(t, ns, false)
}

// newPodsMount waits until the webhook, whose caches may be late, gives new pods the Secret, or does not.
func newPodsMount(t *testing.T, namespace string, want bool) {
	t.Helper()
	var d appsv1.Deployment
	require.NoError(t, admin.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "kube-scheduler"}, &d))
	eventually(t, func() error {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "next", Labels: d.Spec.Template.Labels}, Spec: *d.Spec.Template.Spec.DeepCopy()}
		if err := admin.Create(t.Context(), pod, client.DryRunAll); err != nil {
			return err
		}
		if got := slices.ContainsFunc(pod.Spec.Volumes, holdsTheSecret); got != want {
			return fmt.Errorf("that the next pod has the Secret in a volume is %t", got)
		}
		return nil
	})
}
