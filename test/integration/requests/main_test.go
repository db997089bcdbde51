// Package requests tests, on the real API server, what the signer answers to requests for
// certificates whose keys others make: to CertificateSigningRequests of pods with tokens of
// theirs, of hosts with client certificates, and of an unmodified certificate.Manager of
// client-go; and to PodCertificateRequests, for which the tests stand in for the kubelet, as
// the user that a kubelet is.
package requests

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	pluginapp "github.com/servingcert/servingcert/cmd/kubectl-servingcert/app"
	signerapp "github.com/servingcert/servingcert/cmd/signer/app"
	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/integration/harness"
)

const (
	nodeName      = "node-1"
	signerAccount = "servingcert-signer"
)

var (
	plane *controlplane.ControlPlane
	admin *kubernetes.Clientset
	dir   string // of the programs

	certificates     controlplane.Certificates
	nodeCertificates controlplane.Certificates // as the kubelet of nodeName
)

func TestMain(m *testing.M) {
	harness.Run(m, harness.Setup{
		ControlPlane: controlplane.Options{
			AuditUsers:         []string{"system:serviceaccount:" + api.DefaultNamespace + ":" + signerAccount},
			Features:           controlplane.Features(),
			ExtraAPIServerArgs: []string{"--enable-admission-plugins=NodeRestriction"},
		},
		Programs: harness.Programs{"signer": signerapp.Main, "kubectl-servingcert": pluginapp.Main}, RightsOf: "signer",
	}, prepare)
}

// prepare makes a node, and lets everybody make CertificateSigningRequests.
func prepare(ctx context.Context, s *harness.Suite) error {
	plane, admin, dir = s.Plane, s.Clientset, s.Dir
	kubelet, err := plane.UserConfig("system:node:"+nodeName, "system:nodes")
	if err != nil {
		return err
	}
	if certificates, err = controlplane.CertificatesOf(ctx, plane.AdminConfig()); err != nil {
		return err
	}
	if nodeCertificates, err = controlplane.CertificatesOf(ctx, kubelet); err != nil {
		return err
	}
	if _, err := admin.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	meta := metav1.ObjectMeta{Name: "requesters"}
	if _, err := admin.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{"certificates.k8s.io"}, Resources: []string{"certificatesigningrequests"}, Verbs: []string{"create", "get", "list", "watch"},
	}}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	if _, err := admin.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: "system:authenticated"}},
	}, metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := harness.ApplyOptional(ctx, s.Client, "identities.yaml"); err != nil {
		return err
	}
	return harness.Await(ctx, func() error { return granted(ctx, mayAsk) })
}

// needsPodCertificates skips the test where kubelets cannot ask.
func needsPodCertificates(t *testing.T) {
	t.Helper()
	harness.Needs(t, plane.AdminConfig(), controlplane.PodCertificates)
}

// startSigner runs the program, with the rights of install.yaml, until the test ends or
// it is stopped or killed.
func startSigner(t *testing.T, flags ...string) *harness.Program {
	t.Helper()
	return harness.StartSigner(t, plane, dir, flags...)
}
