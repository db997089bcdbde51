// Package failing tests how pods are reported that fail after the webhook gave them something,
// against a real kube-apiserver and etcd, with the rights that deploy/install.yaml gives the
// rotator's ServiceAccount and no more.
//
// The tests play everybody else: the kubelet, which says how containers ended, and the controllers
// and operators, which make and delete pods. The webhook's own function injects them.
package failing

import (
	"context"
	"testing"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/rotator"
	"github.com/servingcert/servingcert/test/integration/harness"
)

var (
	account *rest.Config  // the rotator's
	admin   client.Client // sees everything, without a cache
)

func TestMain(m *testing.M) {
	harness.Run(m, harness.Setup{RightsOf: "rotator"}, func(ctx context.Context, s *harness.Suite) error {
		admin, account = s.Client, s.Account
		return harness.CreateLease(ctx, admin, "servingcert-rotator")
	})
}

// startRotator runs one. Nobody listens here.
func startRotator(t *testing.T) *harness.Rotator {
	t.Helper()
	return harness.StartRotator(t, account, func(cfg *rotator.Config) { cfg.Serving.Verify = false })
}
