package webhook_test

import (
	"context"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate"
)

const (
	systemNamespace = api.DefaultNamespace
	webhookName     = "servingcert-webhook"
	configuration   = "servingcert"
)

// rules are all that the webhook may do.
var rules = []rbacv1.PolicyRule{
	{APIGroups: []string{""}, Resources: []string{"services"}, Verbs: []string{"list", "watch"}},
	{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{api.ConventionalSecretName}, Verbs: []string{"get", "list", "watch"}},
}

// applyInstallation creates what an installation has for the webhook, and
// returns the ClusterIP of its Service.
func applyInstallation(ctx context.Context, caBundle []byte) (string, error) {
	create := metav1.CreateOptions{}
	if _, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: systemNamespace, Labels: map[string]string{api.LabelInject: api.InjectEnabled},
	}}, create); err != nil {
		return "", err
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: webhookName, Namespace: systemNamespace}}
	if _, err := client.CoreV1().ServiceAccounts(systemNamespace).Create(ctx, account, create); err != nil {
		return "", err
	}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: webhookName}, Rules: rules}
	if _, err := client.RbacV1().ClusterRoles().Create(ctx, role, create); err != nil {
		return "", err
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: webhookName},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: webhookName},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: webhookName, Namespace: systemNamespace}},
	}
	if _, err := client.RbacV1().ClusterRoleBindings().Create(ctx, binding, create); err != nil {
		return "", err
	}
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: webhookName, Namespace: systemNamespace},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: webhookPort, TargetPort: intstr.FromInt32(webhookPort)}}},
	}
	service, err := client.CoreV1().Services(systemNamespace).Create(ctx, service, create)
	if err != nil {
		return "", err
	}
	if _, err := client.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(ctx, webhookConfiguration(caBundle), create); err != nil {
		return "", fmt.Errorf("MutatingWebhookConfiguration: %w", err)
	}
	return service.Spec.ClusterIP, nil
}

func webhookConfiguration(caBundle []byte) *admissionregistrationv1.MutatingWebhookConfiguration {
	hookPath, port, timeout := mutate.Path, int32(webhookPort), int32(5)
	fail, none, again, scope := admissionregistrationv1.Fail, admissionregistrationv1.SideEffectClassNone, admissionregistrationv1.IfNeededReinvocationPolicy, admissionregistrationv1.NamespacedScope
	return &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: configuration},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: "pods.servingcert.dev",
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				Service:  &admissionregistrationv1.ServiceReference{Namespace: systemNamespace, Name: webhookName, Path: &hookPath, Port: &port},
				CABundle: caBundle,
			},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}, Scope: &scope},
			}},
			NamespaceSelector: &metav1.LabelSelector{
				MatchLabels: map[string]string{api.LabelInject: api.InjectEnabled},
				MatchExpressions: []metav1.LabelSelectorRequirement{{
					Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpNotIn, Values: []string{systemNamespace, metav1.NamespaceSystem},
				}},
			},
			MatchConditions: []admissionregistrationv1.MatchCondition{{
				Name:       "not-a-mirror-pod",
				Expression: `!has(object.metadata.annotations) || !("kubernetes.io/config.mirror" in object.metadata.annotations)`,
			}, {
				Name:       "not-opted-out",
				Expression: `!has(object.metadata.labels) || !("servingcert.dev/inject" in object.metadata.labels) || object.metadata.labels["servingcert.dev/inject"] != "disabled"`,
			}},
			FailurePolicy: &fail, SideEffects: &none, ReinvocationPolicy: &again, TimeoutSeconds: &timeout,
			AdmissionReviewVersions: []string{"v1"},
		}},
	}
}
