// Package podcert tests, on the real API server, what the signer answers to requests for
// certificates whose keys pods make. The tests stand in for the kubelet, as the user that
// a kubelet is.
package podcert

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/integration/harness"
)

const (
	nodeName      = "node-1"
	signerAccount = "servingcert-signer"
)

var (
	plane  *controlplane.ControlPlane
	admin  *kubernetes.Clientset
	dir    string
	signer string // the program

	certificates     controlplane.Certificates
	nodeCertificates controlplane.Certificates // as the kubelet of nodeName
)

func TestMain(m *testing.M) { harness.Main(m, run) }

func run(m *testing.M) (code int, err error) {
	ctx := context.Background()
	if dir, err = os.MkdirTemp("", "servingcert-podcert-"); err != nil {
		return 1, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	signer = filepath.Join(dir, "signer")
	if err := harness.Build(ctx, dir, "signer"); err != nil {
		return 1, err
	}
	plane, err = controlplane.Start(ctx, controlplane.Options{
		AuditUsers:         []string{"system:serviceaccount:" + api.DefaultNamespace + ":" + signerAccount},
		Features:           []controlplane.Feature{controlplane.PodCertificates},
		ExtraAPIServerArgs: []string{"--enable-admission-plugins=NodeRestriction"},
	})
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, plane.Stop()) }()
	if err := prepare(ctx); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// prepare makes what there is before the signer starts: its rights, and a node.
func prepare(ctx context.Context) error {
	var err error
	if admin, err = kubernetes.NewForConfig(plane.AdminConfig()); err != nil {
		return err
	}
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
	c, err := client.New(plane.AdminConfig(), client.Options{})
	if err != nil {
		return err
	}
	if err := harness.ApplyRights(ctx, c, "signer"); err != nil {
		return err
	}
	account, err := plane.ServiceAccountConfig(ctx, api.DefaultNamespace, signerAccount)
	if err != nil {
		return err
	}
	if err := controlplane.WriteKubeconfig(filepath.Join(dir, "kubeconfig"), account); err != nil {
		return err
	}
	_, err = admin.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}}, metav1.CreateOptions{})
	return err
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
	p := &harness.Program{Path: signer, Args: append([]string{
		"--kubeconfig=" + filepath.Join(dir, "kubeconfig"), "--metrics-addr=0", "--leader-elect=false", "--log-level=debug",
	}, flags...)}
	p.Start(t)
	p.StopAtEnd(t)
	return p
}
