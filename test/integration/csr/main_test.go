// Package csr tests, on the real API server, what the signer answers to
// CertificateSigningRequests: of pods with tokens of theirs, of hosts with client
// certificates, and of an unmodified certificate.Manager of client-go.
package csr

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/integration/harness"
)

var (
	plane  *controlplane.ControlPlane
	admin  *kubernetes.Clientset
	dir    string
	signer string // the program
)

func TestMain(m *testing.M) { harness.Main(m, run) }

func run(m *testing.M) (code int, err error) {
	ctx := context.Background()
	if dir, err = os.MkdirTemp("", "servingcert-csr-"); err != nil {
		return 1, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	signer = filepath.Join(dir, "signer")
	if err := harness.Build(ctx, dir, "signer"); err != nil {
		return 1, err
	}
	if plane, err = controlplane.Start(ctx, controlplane.Options{
		AuditUsers: []string{"system:serviceaccount:" + api.DefaultNamespace + ":servingcert-signer"},
	}); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, plane.Stop()) }()
	if err := prepare(ctx); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// prepare makes what there is before the signer starts: its rights, and that of everybody
// to make requests.
func prepare(ctx context.Context) error {
	var err error
	if admin, err = kubernetes.NewForConfig(plane.AdminConfig()); err != nil {
		return err
	}
	c, err := client.New(plane.AdminConfig(), client.Options{})
	if err != nil {
		return err
	}
	if err := harness.ApplyRights(ctx, c, "signer"); err != nil {
		return err
	}
	account, err := plane.ServiceAccountConfig(ctx, api.DefaultNamespace, "servingcert-signer")
	if err != nil {
		return err
	}
	if err := controlplane.WriteKubeconfig(filepath.Join(dir, "kubeconfig"), account); err != nil {
		return err
	}
	meta := metav1.ObjectMeta{Name: "requesters"}
	if _, err := admin.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{"certificates.k8s.io"}, Resources: []string{"certificatesigningrequests"}, Verbs: []string{"create", "get", "list", "watch"},
	}}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	_, err = admin.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: "system:authenticated"}},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	return wait.PollUntilContextTimeout(ctx, harness.Tick, harness.Soon, true, func(ctx context.Context) (bool, error) {
		return granted(ctx, mayAsk) == nil, nil
	})
}

// startSigner runs the program, with the rights of install.yaml, until the test ends.
func startSigner(t *testing.T, flags ...string) {
	t.Helper()
	p := &harness.Program{Path: signer, Args: append([]string{
		"--kubeconfig=" + filepath.Join(dir, "kubeconfig"), "--metrics-addr=0", "--leader-elect=false", "--log-level=debug",
	}, flags...)}
	p.Start(t)
	p.StopAtEnd(t)
}
