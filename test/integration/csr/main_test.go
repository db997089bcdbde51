// Package csr tests, on the real API server, what the signer answers to
// CertificateSigningRequests: of pods with tokens of theirs, of hosts with client
// certificates, and of an unmodified certificate.Manager of client-go.
package csr

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
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

// startSigner runs the program, with the rights of install.yaml, until the test ends or
// stop is called.
func startSigner(t *testing.T, flags ...string) (stop func()) {
	t.Helper()
	health, err := harness.FreeAddress()
	require.NoError(t, err)
	log := &harness.Log{}
	cmd := exec.Command(signer, append([]string{
		"--kubeconfig=" + filepath.Join(dir, "kubeconfig"), "--metrics-addr=0", "--health-addr=" + health,
		"--leader-elect=false", "--log-level=debug",
	}, flags...)...)
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(t, cmd.Start())
	stop = sync.OnceFunc(func() {
		if err := errors.Join(cmd.Process.Signal(os.Interrupt), cmd.Wait()); err != nil {
			t.Errorf("the signer ended with: %v", err)
		}
		if t.Failed() {
			t.Logf("log of the signer:\n%s", log)
		}
	})
	t.Cleanup(stop)
	harness.Eventually(t, func() error {
		response, err := http.Get("http://" + health + "/readyz")
		if err != nil {
			return err
		}
		defer func() { _ = response.Body.Close() }()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("the signer is not ready: %s", response.Status)
		}
		return nil
	})
	return stop
}
