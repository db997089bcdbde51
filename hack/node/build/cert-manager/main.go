// Command cert-manager is cert-manager's controller and, with -cainjector, its CA injector. Its only
// issuers are CA and SelfSigned: all of them need the clients of four DNS services and two vaults.
// cert-manager's own command cannot be required, as its module replaces requirements by directories.
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

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlmetricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	cmapi "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/cert-manager/cert-manager/pkg/controller"
	"github.com/cert-manager/cert-manager/pkg/controller/cainjector"
	"github.com/cert-manager/cert-manager/pkg/logs"
	"github.com/cert-manager/cert-manager/pkg/util"

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

// workers is the number of workers of each controller, as in cert-manager's own command.
const workers = 5

func main() {
	flags := flag.NewFlagSet("cert-manager", flag.ExitOnError) // controller-runtime also registers flag kubeconfig
	kubeconfig := flags.String("kubeconfig", "", "kubeconfig of the cluster; default: that of the pod's service account")
	namespace := flags.String("cluster-resource-namespace", "cert-manager", "namespace of the Secrets that ClusterIssuers name")
	inject := flags.Bool("cainjector", false, "inject the CA of a Certificate into webhooks, CRDs and APIServices that ask for it, too")
	_ = flags.Parse(os.Args[1:]) // exits on errors
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *inject, controller.ContextOptions{
		Kubeconfig: *kubeconfig,
		// As in cert-manager's own command, four times client-go's defaults.
		KubernetesAPIQPS: 20, KubernetesAPIBurst: 50,
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

// run runs all registered controllers until ctx ends or one of them fails.
func run(ctx context.Context, inject bool, options controller.ContextOptions) error {
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
	if inject {
		running.Go(func() {
			if err := runInjector(ctx, options.Kubeconfig); err != nil {
				cancel(fmt.Errorf("cainjector: %w", err))
			}
		})
	}
	for name, c := range all {
		running.Go(func() {
			if err := c.Run(workers, ctx); err != nil {
				cancel(fmt.Errorf("%s: %w", name, err))
			}
		})
	}
	fmt.Printf("running %d controllers\n", len(all))
	running.Wait()
	if err := context.Cause(ctx); err != nil && err != context.Canceled {
		return err
	}
	return nil
}

// build builds the registered controllers.
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

// runInjector runs the CA injector until ctx ends.
func runInjector(ctx context.Context, kubeconfig string) error {
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	cfg = util.RestConfigWithUserAgent(cfg, "cainjector") // it determines the injector's field manager
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{cmapi.AddToScheme, corev1.AddToScheme, admissionregistrationv1.AddToScheme, apiextensionsv1.AddToScheme, apiregistrationv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	ctrl.SetLogger(logs.Log)
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme: scheme, Metrics: ctrlmetricsserver.Options{BindAddress: "0"},
		// As in cert-manager's own command: metadata of Secrets is watched, and their data is read live.
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}},
	})
	if err != nil {
		return err
	}
	if err := cainjector.RegisterAllInjectors(ctx, mgr, cainjector.SetupOptions{
		EnableCertificatesDataSource: true,
		EnabledReconcilersFor: map[string]bool{
			cainjector.MutatingWebhookConfigurationName: true, cainjector.ValidatingWebhookConfigurationName: true,
			cainjector.APIServiceName: true, cainjector.CustomResourceDefinitionName: true,
		},
	}); err != nil {
		return err
	}
	return mgr.Start(ctx)
}
