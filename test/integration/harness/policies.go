package harness

import (
	"context"
	"errors"
	"os"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/deploy"
)

// Optional returns the objects of a file in deploy/policies.
func Optional(file string) ([]*unstructured.Unstructured, error) {
	manifest, err := os.ReadFile("../../../deploy/policies/" + file)
	if err != nil {
		return nil, err
	}
	return deploy.Decode(manifest)
}

// ApplyOptional applies such a file.
func ApplyOptional(ctx context.Context, c client.Client, file string) error {
	objects, err := Optional(file)
	if err != nil {
		return err
	}
	return deploy.ApplyObjects(ctx, c, "test", objects)
}

// PoliciesInForce waits until the API server enforces every ValidatingAdmissionPolicy that
// there is. Its status does not tell: the API server looks for changes once a second, and
// compiles the policies before it takes up all of them at once. So one more policy, made
// last, is waited for: with it, those before it are in force.
func PoliciesInForce(ctx context.Context, c client.Client) (err error) {
	const message = "the policies are in force"
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{GenerateName: "in-force-"}}
	policy.Spec.MatchConstraints = &admissionregistrationv1.MatchResources{
		ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"namespaces"}},
		}}},
	}
	policy.Spec.Validations = []admissionregistrationv1.Validation{{Expression: "!object.metadata.name.startsWith('in-force-')", Message: message}}
	if err := c.Create(ctx, policy); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Delete(ctx, policy)) }()
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: policy.Name}}
	binding.Spec.PolicyName = policy.Name
	binding.Spec.ValidationActions = []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}
	if err := c.Create(ctx, binding); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Delete(ctx, binding)) }()
	return Await(ctx, func() error {
		err := c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: policy.Name}}, client.DryRunAll)
		if err == nil {
			return errors.New("the API server does not enforce the policies yet")
		}
		if strings.Contains(err.Error(), message) {
			return nil
		}
		return err
	})
}
