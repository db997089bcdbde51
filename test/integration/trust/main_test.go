// Package trust tests pkg/trust against a real kube-apiserver and etcd, with the
// rights that deploy/install.yaml gives the rotator's ServiceAccount and no more.
//
// Namespaces that a test is done with are deleted and stay Terminating, as no
// kube-controller-manager runs: to the rotator they are no targets.
package trust

import (
	"context"
	"errors"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/deploy"
	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/pkg/api"
	trustcontroller "github.com/servingcert/servingcert/pkg/trust/controller"
	"github.com/servingcert/servingcert/test/integration/harness"
)

const system = api.DefaultNamespace

var (
	cluster *controlplane.ControlPlane
	account *rest.Config  // the rotator's
	admin   client.Client // sees everything, without a cache
)

func TestMain(m *testing.M) {
	harness.Run(m, harness.Setup{
		ControlPlane: controlplane.Options{Without: []controlplane.Feature{controlplane.ClusterTrustBundles}},
	}, prepare)
}

// prepare makes what an installation has before the rotator starts.
func prepare(ctx context.Context, s *harness.Suite) (err error) {
	cluster = s.Plane
	all := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(all), trustcontroller.AddToScheme(all)); err != nil {
		return err
	}
	if admin, err = client.New(cluster.AdminConfig(), client.Options{Scheme: all}); err != nil {
		return err
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: system}} // not opted in: a target less to count
	if err := admin.Create(ctx, namespace); err != nil {
		return err
	}
	objects, err := rotatorsObjects()
	if err != nil {
		return err
	}
	if err := deploy.ApplyObjects(ctx, admin, "test", objects); err != nil {
		return err
	}
	if err := allowAllWebhookConfigurations(ctx); err != nil {
		return err
	}
	account, err = cluster.ServiceAccountConfig(ctx, system, "servingcert-trust")
	return err
}

// webhooksRole lets the rotator patch webhook configurations of others. Here it names
// none, which means all: those of the tests have many names.
const webhooksRole = "servingcert-rotator-webhooks"

func allowAllWebhookConfigurations(ctx context.Context) error {
	meta := metav1.ObjectMeta{Name: webhooksRole}
	return errors.Join(
		admin.Create(ctx, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{"admissionregistration.k8s.io"},
			Resources: []string{"mutatingwebhookconfigurations", "validatingwebhookconfigurations"},
			Verbs:     []string{"patch"},
		}}}),
		admin.Create(ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: meta,
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: system, Name: "servingcert-trust"}},
		}),
	)
}

// rotatorsObjects are those of install.yaml that say what the rotator may do.
func rotatorsObjects() ([]*unstructured.Unstructured, error) {
	all, err := deploy.Objects()
	return slices.DeleteFunc(all, func(obj *unstructured.Unstructured) bool {
		return obj.GetLabels()["app.kubernetes.io/name"] != "trust" || obj.GroupVersionKind().Group == "apps"
	}), err
}
