package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/deploy"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// A quota that has room for what runs, and not for the pod that a rollout adds, stops an
// upgrade: the Deployment says so, and the pods of before stay.
func TestAFullQuotaKeepsTheOldPods(t *testing.T) {
	require.NoError(t, deploy.Apply(t.Context(), admin, "test"))
	running := podsOfWebhook(t, 2)
	var all corev1.PodList
	harness.Eventually(t, func() error {
		err := admin.List(t.Context(), &all, client.InNamespace(system))
		if err == nil && len(all.Items) != 8 {
			err = fmt.Errorf("%d pods, not two for each Deployment", len(all.Items))
		}
		return err
	})
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "full"},
		Spec: corev1.ResourceQuotaSpec{
			Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("8")},
			ScopeSelector: &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{
				{ScopeName: corev1.ResourceQuotaScopePriorityClass, Operator: corev1.ScopeSelectorOpIn, Values: []string{"system-cluster-critical"}},
			}},
		},
	}
	require.NoError(t, admin.Create(t.Context(), quota))
	t.Cleanup(func() { assert.NoError(t, admin.Delete(context.WithoutCancel(t.Context()), quota)) })
	var webhook appsv1.Deployment
	require.NoError(t, admin.Get(t.Context(), client.ObjectKey{Namespace: system, Name: "servingcert-webhook"}, &webhook))
	harness.Eventually(t, func() error { // the API server goes by what it has cached, which may be no quota yet
		template := webhook.Spec.Template
		one := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "one-more", Labels: template.Labels}, Spec: template.Spec}
		err := admin.Create(t.Context(), one, client.DryRunAll)
		if err == nil || !strings.Contains(err.Error(), "exceeded quota: full, requested: pods=1, used: pods=8, limited: pods=8") {
			return fmt.Errorf("the quota does not count 8 pods: one more was refused with %v", err) //nolint:errorlint // it may be nil
		}
		return nil
	})

	upgrade := client.MergeFrom(webhook.DeepCopy())
	webhook.Spec.Template.Annotations = map[string]string{"example.com/version": "next"}
	require.NoError(t, admin.Patch(t.Context(), &webhook, upgrade))
	harness.Eventually(t, func() error {
		if err := admin.Get(t.Context(), client.ObjectKeyFromObject(&webhook), &webhook); err != nil {
			return err
		}
		for _, c := range webhook.Status.Conditions {
			if c.Type == appsv1.DeploymentReplicaFailure && c.Reason == "FailedCreate" && strings.Contains(c.Message, "exceeded quota") {
				return nil
			}
		}
		return fmt.Errorf("conditions: %+v", webhook.Status.Conditions)
	})
	assert.Equal(t, running, podsOfWebhook(t, 2), "the pods of before stay")
}

// podsOfWebhook waits for that many, and returns their names.
func podsOfWebhook(t *testing.T, n int) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	harness.Eventually(t, func() error {
		clear(names)
		var list corev1.PodList
		err := admin.List(t.Context(), &list, client.InNamespace(system), client.MatchingLabels{"app.kubernetes.io/name": "webhook"})
		for _, pod := range list.Items {
			if pod.DeletionTimestamp == nil {
				names[pod.Name] = true
			}
		}
		if len(names) != n {
			return errors.Join(err, fmt.Errorf("%d pods of the webhook, not %d", len(names), n))
		}
		return err
	})
	return names
}
