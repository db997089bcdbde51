// Package csr tests, on the real API server, what the signer answers to
// CertificateSigningRequests: of pods with tokens of theirs, of hosts with client
// certificates, and of an unmodified certificate.Manager of client-go.
package csr

import (
	"context"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	signerapp "github.com/servingcert/servingcert/cmd/signer/app"
	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/integration/harness"
)

var (
	plane *controlplane.ControlPlane
	admin *kubernetes.Clientset
	dir   string // of the program
)

func TestMain(m *testing.M) {
	harness.Run(m, harness.Setup{
		ControlPlane: controlplane.Options{AuditUsers: []string{"system:serviceaccount:" + api.DefaultNamespace + ":servingcert-signer"}},
		Programs:     harness.Programs{"signer": signerapp.Main}, RightsOf: "signer",
	}, prepare)
}

// prepare lets everybody make requests.
func prepare(ctx context.Context, s *harness.Suite) error {
	plane, admin, dir = s.Plane, s.Clientset, s.Dir
	meta := metav1.ObjectMeta{Name: "requesters"}
	if _, err := admin.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{"certificates.k8s.io"}, Resources: []string{"certificatesigningrequests"}, Verbs: []string{"create", "get", "list", "watch"},
	}}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	_, err := admin.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: "system:authenticated"}},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	return harness.Await(ctx, func() error { return granted(ctx, mayAsk) })
}

// startSigner runs the program until the test ends.
func startSigner(t *testing.T, flags ...string) {
	t.Helper()
	harness.StartSigner(t, plane, dir, flags...)
}
