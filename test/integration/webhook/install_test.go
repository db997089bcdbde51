package webhook_test

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	crclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/deploy"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/bounded"
)

// Names in deploy/install.yaml.
const (
	systemNamespace = api.DefaultNamespace
	webhookName     = "servingcert-webhook"
	configuration   = "servingcert"
)

// applyInstallation applies install.yaml, gives its webhook configuration the
// bundle in the rotator's stead, and returns the ClusterIP of its Service.
func applyInstallation(ctx context.Context, caBundle []byte) (string, error) {
	c, err := crclient.New(cluster.AdminConfig(), crclient.Options{})
	if err != nil {
		return "", err
	}
	objects, err := deploy.Objects()
	if err != nil {
		return "", err
	}
	for _, obj := range objects {
		// Tests write settings that are wrong, as they may be from before the policy.
		if obj.GetKind() == "ValidatingAdmissionPolicyBinding" && obj.GetName() == "servingcert-annotations" {
			if err := unstructured.SetNestedStringSlice(obj.Object, []string{"Warn"}, "spec", "validationActions"); err != nil {
				return "", err
			}
		}
	}
	if err := deploy.ApplyObjects(ctx, c, "test", objects); err != nil {
		return "", err
	}
	configurations := client.AdmissionregistrationV1().MutatingWebhookConfigurations()
	found, err := configurations.Get(ctx, configuration, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	for i := range found.Webhooks {
		found.Webhooks[i].ClientConfig.CABundle = caBundle
		if bounded.RaceFactor > 1 { // a pod of a megabyte takes more than 5 s on a busy machine
			found.Webhooks[i].TimeoutSeconds = new(int32(30))
		}
	}
	if _, err := configurations.Update(ctx, found, metav1.UpdateOptions{}); err != nil {
		return "", fmt.Errorf("set caBundle: %w", err)
	}
	service, err := client.CoreV1().Services(systemNamespace).Get(ctx, webhookName, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	return service.Spec.ClusterIP, nil
}
