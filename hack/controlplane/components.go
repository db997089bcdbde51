package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"github.com/servingcert/servingcert/hack/process"
)

// controllers are the controllers of kube-controller-manager that act without nodes.
// The others would only use memory and write conditions on nodes that do not exist.
var controllers = []string{
	"clusterrole-aggregation-controller",
	"cronjob-controller",
	"daemonset-controller",
	"deployment-controller",
	"disruption-controller",
	"endpointslice-controller",
	"garbage-collector-controller",
	"job-controller",
	"namespace-controller",
	"replicaset-controller",
	"resourcequota-controller",
	"root-ca-certificate-publisher-controller",
	"serviceaccount-controller",
	"statefulset-controller",
	"validatingadmissionpolicy-status-controller",
}

// startEtcd chooses the addresses of etcd and starts it for the first time.
func (cp *ControlPlane) startEtcd(ctx context.Context) error {
	err := retryPorts(func() error {
		client, err := process.FreeAddress()
		if err != nil {
			return err
		}
		peer, err := process.FreeAddress()
		if err != nil {
			return err
		}
		// A member that could not bind has stored its peer address.
		if err := os.RemoveAll(cp.EtcdDir()); err != nil {
			return err
		}
		clientURL, peerURL := "http://"+client, "http://"+peer
		cp.etcdHost, cp.etcdHealth = client, clientURL+"/health"
		cp.etcd = cp.newComponent(Etcd,
			"--name=default",
			"--data-dir="+cp.EtcdDir(),
			"--listen-client-urls="+clientURL,
			"--advertise-client-urls="+clientURL,
			"--listen-peer-urls="+peerURL,
			"--initial-advertise-peer-urls="+peerURL,
			"--initial-cluster=default="+peerURL,
			"--unsafe-no-fsync=true",
			"--log-level=warn",
		)
		return cp.launchEtcd(ctx)
	})
	if err == nil && cp.opts.EtcdVia != nil {
		cp.etcdHost, err = cp.opts.EtcdVia(cp.etcdHost)
	}
	return err
}

// launchEtcd runs etcd with the arguments that startEtcd chose.
func (cp *ControlPlane) launchEtcd(ctx context.Context) error {
	return cp.etcd.start(ctx, func(ctx context.Context) error {
		return GetOK(ctx, http.DefaultClient, cp.etcdHealth)
	})
}

// startNewAPIServer chooses the address of kube-apiserver and starts it for the first time.
func (cp *ControlPlane) startNewAPIServer(ctx context.Context) error {
	return retryPorts(func() error {
		var err error
		if cp.host, err = process.FreeAddress(); err != nil {
			return err
		}
		cp.mu.Lock()
		defer cp.mu.Unlock()
		return cp.launchAPIServer(ctx)
	})
}

// launchAPIServer runs kube-apiserver at cp.host. The caller holds cp.mu.
func (cp *ControlPlane) launchAPIServer(ctx context.Context, more ...string) error {
	host, port, err := net.SplitHostPort(cp.host)
	if err != nil {
		return err
	}
	args := []string{
		"--etcd-servers=http://" + cp.etcdHost,
		"--bind-address=" + host,
		"--secure-port=" + port,
		"--cert-dir=" + cp.path("apiserver"),
		"--tls-cert-file=" + cp.pki.serving.CertFile,
		"--tls-private-key-file=" + cp.pki.serving.KeyFile,
		"--client-ca-file=" + cp.pki.CAFile,
		"--authorization-mode=Node,RBAC",
		"--allow-privileged=true",
		"--service-cluster-ip-range=" + cp.services.String(),
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + cp.pki.accountKeyFile,
		"--service-account-signing-key-file=" + cp.pki.accountKeyFile,
		// Without this flag, kube-apiserver needs a default route, which a machine without
		// a network lacks. The address is for documentation (RFC 5737), and not used.
		"--advertise-address=192.0.2.1",
		"--endpoint-reconciler-type=none",
		"--enable-priority-and-fairness=false",
		"--max-requests-inflight=0",
		"--max-mutating-requests-inflight=0",
	}
	audit, err := cp.auditArgs()
	if err != nil {
		return err
	}
	args = slices.Concat(args, audit, cp.FeatureArgs(true, cp.opts.Features...), cp.FeatureArgs(false, cp.opts.Without...), cp.opts.ExtraAPIServerArgs, more)
	cp.apiServer = cp.newComponent(KubeAPIServer, args...)
	client, err := rest.HTTPClientFor(cp.AdminConfig())
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	return cp.apiServer.start(ctx, func(ctx context.Context) error {
		return GetOK(ctx, client, cp.Host()+"/readyz")
	})
}

func (cp *ControlPlane) startManager(ctx context.Context) error {
	kubeconfig := cp.path("pki", "kube-controller-manager.kubeconfig")
	if err := WriteKubeconfig(kubeconfig, cp.certConfig(cp.pki.manager)); err != nil {
		return err
	}
	run, more := controllers, []string(nil)
	if cp.opts.ApprovedRequests {
		run = append(slices.Clone(run), "certificatesigningrequest-signing-controller")
		keyFile := cp.path("pki", "cluster-signing.key")
		if err := cp.pki.WriteKey(keyFile); err != nil {
			return err
		}
		more = []string{"--cluster-signing-cert-file=" + cp.pki.CAFile, "--cluster-signing-key-file=" + keyFile}
	}
	cp.manager = cp.newComponent(KubeControllerManager, append([]string{
		"--kubeconfig=" + kubeconfig,
		"--controllers=" + strings.Join(run, ","),
		"--use-service-account-credentials=true",
		"--root-ca-file=" + cp.pki.CAFile,
		"--leader-elect=false",
		"--secure-port=0",
		"--kube-api-qps=1000",
		"--kube-api-burst=2000",
	}, more...)...)
	return cp.launchManager(ctx)
}

// launchManager runs kube-controller-manager with the arguments that startManager chose.
func (cp *ControlPlane) launchManager(ctx context.Context) error {
	// It serves no health endpoint here: the default ServiceAccount shows that its controllers run.
	return cp.manager.start(ctx, func(ctx context.Context) error { return cp.hasDefaultAccount(ctx) })
}

// retryPorts calls start again while it fails because another process took a port
// between process.FreeAddress and the component's bind.
func retryPorts(start func() error) error {
	for attempt := 1; ; attempt++ {
		err := start()
		if attempt == portAttempts || !errors.Is(err, errAddressInUse) {
			return err
		}
	}
}

// GetOK returns nil if a GET of url returns status 200.
func GetOK(ctx context.Context, client *http.Client, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", url, resp.Status)
	}
	return nil
}
