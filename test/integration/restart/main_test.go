// Package restart tests what the rotator restarts, against a real kube-apiserver,
// etcd and kube-controller-manager, with the rights that deploy/install.yaml gives
// the rotator's ServiceAccount and no more: pods that serve what they read when
// they started, listeners on loopback that serve it, and workloads that make them
// anew.
//
// There is no kubelet: a harness.Node says of each pod that it runs, and serves what its Secret held when it started.
package restart

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/rotator"
	"github.com/servingcert/servingcert/test/integration/harness"
	"github.com/servingcert/servingcert/test/rotatortest"
)

const system = api.DefaultNamespace

var (
	account *rest.Config  // the rotator's
	admin   client.Client // sees everything, without a cache
	ca      rotatortest.CA
	stopped sync.Map // namespaces whose new pods do not start
)

func TestMain(m *testing.M) {
	harness.Run(m, harness.Setup{ControlPlane: controlplane.Options{ControllerManager: true}, RightsOf: "rotator"}, prepare)
}

// prepare makes what an installation has before the rotator starts, and starts the node.
func prepare(ctx context.Context, s *harness.Suite) (err error) {
	account, admin = s.Account, s.Client
	if ca, err = rotatortest.MakeCA(1, time.Now().Add(-24*time.Hour)); err != nil {
		return err
	}
	if err := harness.CreateLease(ctx, admin, "servingcert-rotator"); err != nil {
		return err
	}
	if err := admin.Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: api.CAStatusName},
		Data:       map[string]string{api.BundleKey: string(pki.EncodeCertificates(ca.Root))},
	}); err != nil {
		return err
	}
	second := 2 + rand.IntN(14) // ClusterIPs begin at 127.16
	node := harness.Node{
		Client: admin, Address: func(n int) string { return fmt.Sprintf("127.%d.%d.%d", second, n/250, 1+n%250) },
		Runs:   func(pod *corev1.Pod) bool { _, not := stopped.Load(pod.Namespace); return !not },
		Secret: func(pod *corev1.Pod) string { return pod.Spec.Volumes[0].Secret.SecretName },
	}
	running, stop := context.WithCancel(context.Background())
	s.AtEnd(func() error { stop(); return node.Wait() })
	return node.Start(running)
}

// startRotator runs one. It is a short while's work to it what would be minutes on a node.
func startRotator(t *testing.T, changes ...func(*rotator.Config)) *harness.Rotator {
	t.Helper()
	return harness.StartRotator(t, account, append([]func(*rotator.Config){func(cfg *rotator.Config) {
		cfg.Serving.PropagationTime, cfg.Serving.Interval, cfg.Serving.Pause = time.Second, time.Second, 50*time.Millisecond
		cfg.Uninjected.Patience, cfg.Restart.Patience = 500*time.Millisecond, 500*time.Millisecond
		cfg.Restart.Poll, cfg.Restart.Retry = 50*time.Millisecond, 200*time.Millisecond
	}}, changes...)...)
}
