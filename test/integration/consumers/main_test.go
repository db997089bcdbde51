// Package consumers tests who serves what (pkg/rotator) against a real
// kube-apiserver and etcd, with the rights that deploy/install.yaml gives the
// rotator's ServiceAccount and no more, and with real handshakes.
//
// The tests play everybody else: the signer, whose conditions they write; the
// kubelet, which says that pods are ready and where; and the servers in the pods,
// which listen on addresses of 127.5.0.0/16.
package consumers

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/integration/harness"
)

const system = api.DefaultNamespace

var (
	cluster *controlplane.ControlPlane
	account *rest.Config            // the rotator's
	admin   client.WithWatch        // sees everything, without a cache
	ours    = newAuthority(1, true) // the CA that is published

	kubeconfig string // of an administrator
)

func TestMain(m *testing.M) { harness.Main(m, run) }

func run(m *testing.M) (code int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	ctrl.SetLogger(logr.Discard())
	cluster, err = controlplane.Start(ctx, controlplane.Options{
		Features: []controlplane.Feature{controlplane.PodCertificates}, // else volumes lose their source
	})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	if err := prepare(ctx, cluster); err != nil {
		return 0, err
	}
	return m.Run(), nil
}

// prepare makes what an installation has before the rotator starts: what
// install.yaml says of the rotator, and the bundle that the signer publishes.
func prepare(ctx context.Context, cluster *controlplane.ControlPlane) error {
	kubeconfig = cluster.KubeconfigFile()
	var err error
	if admin, err = client.NewWithWatch(cluster.AdminConfig(), client.Options{}); err != nil {
		return err
	}
	if err := harness.ApplyRights(ctx, admin, "rotator"); err != nil {
		return err
	}
	if account, err = cluster.ServiceAccountConfig(ctx, system, "servingcert-rotator"); err != nil {
		return err
	}
	return admin.Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: api.CAStatusName},
		Data:       map[string]string{api.BundleKey: string(ours.bundle())},
	})
}
