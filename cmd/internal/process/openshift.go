package process

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
)

// serviceCA are the Deployments that OpenShift's service-ca consists of: the
// controller, and the operator that would bring it back.
var serviceCA = []types.NamespacedName{
	{Namespace: api.OpenShiftNamespace, Name: api.OpenShiftDeployment},
	{Namespace: api.OpenShiftOperatorNamespace, Name: api.OpenShiftOperatorDeployment},
}

// RefuseBesideServiceCA returns an error if service-ca runs in the cluster, or if
// that cannot be told. A process with --openshift-compat calls it before it starts
// anything: both would write the same Secrets and fields, each its own CA's,
// without end. A Deployment that is scaled to zero does not run.
//
// r must read the API server, not a cache. It needs the right to get these
// Deployments.
func RefuseBesideServiceCA(ctx context.Context, r client.Reader) error {
	for _, key := range serviceCA {
		runs, err := isScaledUp(ctx, r, key)
		if err != nil {
			return fmt.Errorf("--openshift-compat: cannot determine whether OpenShift's service-ca runs in this cluster: read Deployment %s: %w", key, err)
		}
		if runs {
			return fmt.Errorf("--openshift-compat: OpenShift's service-ca runs in this cluster (Deployment %s), and both would write every Secret and CA bundle: remove the flag, or remove service-ca first", key)
		}
	}
	return nil
}

func isScaledUp(ctx context.Context, r client.Reader, key types.NamespacedName) (bool, error) {
	deployment := &unstructured.Unstructured{} // a process need not know the type otherwise
	deployment.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("Deployment"))
	if err := r.Get(ctx, key, deployment); err != nil {
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return false, err
	}
	replicas, set, err := unstructured.NestedInt64(deployment.Object, "spec", "replicas")
	return !set || replicas > 0, err
}
