// Command cert-manager is cert-manager's controller with its issuers of kinds CA and
// SelfSigned and no others: the whole of it would bring the clients of four DNS
// services and two vaults. cert-manager's own command is in a module that replaces
// its requirements by directories, which no other module can require.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/cert-manager/cert-manager/pkg/controller"
	"github.com/cert-manager/cert-manager/pkg/logs"

	// Controllers and issuers register themselves.
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/ca"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/selfsigned"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/readiness"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/requestmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/revisionmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"
	_ "github.com/cert-manager/cert-manager/pkg/controller/clusterissuers"
	_ "github.com/cert-manager/cert-manager/pkg/controller/issuers"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/ca"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/selfsigned"
)

// workers of each controller, as cert-manager's own command has.
const workers = 5

func main() {
	kubeconfig := flag.String("kubeconfig", "", "kubeconfig of the cluster; default: that of the pod's service account")
	namespace := flag.String("cluster-resource-namespace", "cert-manager", "namespace of the Secrets that ClusterIssuers name")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, controller.ContextOptions{
		Kubeconfig:    *kubeconfig,
		IssuerOptions: controller.IssuerOptions{ClusterResourceNamespace: *namespace},
		CertificateOptions: controller.CertificateOptions{
			CertificateRequestMinimumBackoffDuration: time.Hour,
			CertificateRequestMaximumBackoffDuration: 32 * time.Hour,
		},
	})
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "cert-manager:", err)
		os.Exit(1)
	}
}

// run runs all controllers that are registered until ctx ends. One that fails ends
// the others.
func run(ctx context.Context, options controller.ContextOptions) error {
	ctx, cancel := context.WithCancelCause(logs.NewContext(ctx, logs.Log))
	defer cancel(nil)
	factory, err := controller.NewContextFactory(ctx, options)
	if err != nil {
		return err
	}
	all, err := build(factory)
	if err != nil {
		return err
	}
	shared, err := factory.Build()
	if err != nil {
		return err
	}
	shared.SharedInformerFactory.Start(ctx.Done())
	shared.KubeSharedInformerFactory.Start(ctx.Done())
	var running sync.WaitGroup
	for name, c := range all {
		running.Go(func() {
			if err := c.Run(workers, ctx); err != nil {
				cancel(fmt.Errorf("%s: %w", name, err))
			}
		})
	}
	fmt.Printf("runs %d controllers\n", len(all))
	running.Wait()
	if err := context.Cause(ctx); err != nil && err != context.Canceled {
		return err
	}
	return nil
}

// build makes the controllers that are registered.
func build(factory *controller.ContextFactory) (map[string]controller.Interface, error) {
	all := map[string]controller.Interface{}
	for name, constructor := range controller.Known() {
		c, err := constructor(factory)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all[name] = c
	}
	return all, nil
}
