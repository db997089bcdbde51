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
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	pluginapp "github.com/servingcert/servingcert/cmd/kubectl-servingcert/app"
	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/integration/harness"
	"github.com/servingcert/servingcert/test/rotatortest"
)

const system = api.DefaultNamespace

var (
	cluster *controlplane.ControlPlane
	account *rest.Config     // the rotator's
	admin   client.WithWatch // sees everything, without a cache
	ours    rotatortest.CA   // is published

	kubeconfig string // of an administrator
	plugin     string // kubectl-servingcert
)

func TestMain(m *testing.M) {
	harness.Run(m, harness.Setup{
		ControlPlane: controlplane.Options{Features: []controlplane.Feature{controlplane.PodCertificates}}, // else volumes lose their source
		RightsOf:     "rotator",
		Programs:     harness.Programs{"kubectl-servingcert": pluginapp.Main},
	}, func(ctx context.Context, s *harness.Suite) error {
		cluster, account, admin, kubeconfig = s.Plane, s.Account, s.Client, s.Plane.KubeconfigFile()
		plugin = filepath.Join(s.Dir, "kubectl-servingcert")
		var err error
		if ours, err = rotatortest.MakeCA(1, time.Now().Add(-240*time.Hour)); err != nil {
			return err
		}
		if err := harness.CreateLease(ctx, admin, "servingcert-rotator"); err != nil {
			return err
		}
		return admin.Create(ctx, &corev1.ConfigMap{ // the bundle that the signer publishes
			ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: api.CAStatusName},
			Data:       map[string]string{api.BundleKey: bundleOfOurs()},
		})
	})
}
