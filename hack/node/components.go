package node

import (
	"context"
	"fmt"
	"net"

	"github.com/servingcert/servingcert/hack/controlplane"
)

const containerd = "containerd"

// order is the order in which components start, after the holder.
var order = []string{
	containerd, controlplane.Etcd, controlplane.KubeAPIServer, controlplane.KubeControllerManager,
	controlplane.KubeScheduler, controlplane.KubeProxy, controlplane.Kubelet,
}

// program is the command line of a component, and its readiness check.
type program struct {
	program string
	args    []string
	ready   func(context.Context) error
}

// programs returns the program of each component. Its arguments depend only on the layout, so that
// a restart does not change them.
func (n *Node) programs() map[string]program {
	return map[string]program{
		containerd:        {containerd, []string{"--config=" + n.path("config", "containerd.toml")}, n.dialContainerd},
		controlplane.Etcd: {n.binaries[controlplane.Etcd], n.etcdArgs(), n.healthy("https://" + n.at(2379) + "/health")},
		controlplane.KubeAPIServer: {
			n.binaries[controlplane.KubeAPIServer], n.apiServerArgs(), n.healthy(n.apiServer() + "/readyz"),
		},
		controlplane.KubeControllerManager: {
			n.binaries[controlplane.KubeControllerManager], n.managerArgs(), n.healthy("https://" + n.at(10257) + "/healthz"),
		},
		controlplane.KubeScheduler: {
			n.binaries[controlplane.KubeScheduler], n.schedulerArgs(), n.healthy("https://" + n.at(10259) + "/healthz"),
		},
		controlplane.KubeProxy: {
			n.binaries[controlplane.KubeProxy], n.proxyArgs(), n.healthy("http://" + n.at(10256) + "/livez"),
		},
		controlplane.Kubelet: {
			n.binaries[controlplane.Kubelet], n.kubeletArgs(), n.healthy("http://" + n.at(10248) + "/healthz"),
		},
	}
}

func (n *Node) etcdArgs() []string {
	pki := func(file string) string { return n.path("pki", file) }
	client, peer := "https://"+n.at(2379), "https://"+n.at(2380)
	return []string{
		"--name=default",
		"--data-dir=" + n.path("etcd"),
		"--listen-client-urls=" + client,
		"--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer,
		"--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=default=" + peer,
		"--client-cert-auth=true",
		"--trusted-ca-file=" + pki("ca.crt"),
		"--cert-file=" + pki("etcd.crt"),
		"--key-file=" + pki("etcd.key"),
		"--peer-client-cert-auth=true",
		"--peer-trusted-ca-file=" + pki("ca.crt"),
		"--peer-cert-file=" + pki("etcd.crt"),
		"--peer-key-file=" + pki("etcd.key"),
		// Data survives a crash of the process, but not of the machine.
		"--unsafe-no-fsync=true",
		"--log-level=warn",
	}
}

func (n *Node) apiServerArgs() []string {
	pki := func(file string) string { return n.path("pki", file) }
	return []string{
		"--etcd-servers=https://" + n.at(2379),
		"--etcd-cafile=" + pki("ca.crt"),
		"--etcd-certfile=" + pki("client-etcd-client.crt"),
		"--etcd-keyfile=" + pki("client-etcd-client.key"),
		"--bind-address=" + n.NodeIP.String(),
		"--advertise-address=" + n.NodeIP.String(),
		"--secure-port=6443",
		"--tls-cert-file=" + pki("kube-apiserver.crt"),
		"--tls-private-key-file=" + pki("kube-apiserver.key"),
		"--client-ca-file=" + pki("ca.crt"),
		"--allow-privileged=true",
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--service-cluster-ip-range=" + n.families(n.Services, func(a addresses) fmt.Stringer { return a.Services }),
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + pki("serviceaccount.key"),
		"--service-account-signing-key-file=" + pki("serviceaccount.key"),
		"--kubelet-preferred-address-types=InternalIP", // DNS does not have the Node's name
		"--kubelet-certificate-authority=" + pki("ca.crt"),
		"--kubelet-client-certificate=" + pki("client-apiserver-kubelet-client.crt"),
		"--kubelet-client-key=" + pki("client-apiserver-kubelet-client.key"),
		"--proxy-client-cert-file=" + pki("front-proxy-client.crt"),
		"--proxy-client-key-file=" + pki("front-proxy-client.key"),
		"--requestheader-client-ca-file=" + pki("front-proxy-ca.crt"),
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
	}
}

func (n *Node) managerArgs() []string {
	name := controlplane.KubeControllerManager
	return append(n.servingArgs(name),
		"--use-service-account-credentials=true",
		"--service-account-private-key-file="+n.path("pki", "serviceaccount.key"),
		"--root-ca-file="+n.path("pki", "ca.crt"),
		"--cluster-signing-cert-file="+n.path("pki", "ca.crt"),
		"--cluster-signing-key-file="+n.path("pki", signingKey),
		// The kubelet renews it after six to nine minutes.
		"--cluster-signing-duration=10m",
	)
}

func (n *Node) schedulerArgs() []string { return n.servingArgs(controlplane.KubeScheduler) }

// servingArgs returns the flags of components that serve metrics and health over TLS, and
// ask the API server to authorize clients.
func (n *Node) servingArgs(name string) []string {
	return []string{
		"--kubeconfig=" + n.kubeconfig(name),
		"--authentication-kubeconfig=" + n.kubeconfig(name),
		"--authorization-kubeconfig=" + n.kubeconfig(name),
		"--bind-address=" + n.NodeIP.String(),
		"--tls-cert-file=" + n.path("pki", name+".crt"),
		"--tls-private-key-file=" + n.path("pki", name+".key"),
		"--leader-elect=false",
	}
}

func (n *Node) proxyArgs() []string {
	return []string{
		"--kubeconfig=" + n.kubeconfig(controlplane.KubeProxy),
		"--hostname-override=" + nodeName,
		"--proxy-mode=iptables",
		"--bind-address=" + n.NodeIP.String(),
		"--cluster-cidr=" + n.families(n.Pods, func(a addresses) fmt.Stringer { return a.Pods }),
		"--healthz-bind-address=" + n.at(10256),
		"--metrics-bind-address=" + n.at(10249),
		// The node must not change the machine's limits.
		"--conntrack-max-per-core=0",
		"--conntrack-min=0",
		"--conntrack-tcp-timeout-established=0",
		"--conntrack-tcp-timeout-close-wait=0",
	}
}

func (n *Node) kubeletArgs() []string {
	return []string{
		"--config=" + n.path("config", "kubelet.yaml"),
		"--kubeconfig=" + n.kubeconfig(controlplane.Kubelet),
		"--root-dir=" + n.path("kubelet"),
		"--cert-dir=" + n.path("kubelet", "pki"),
		"--hostname-override=" + nodeName,
		"--node-ip=" + n.families(n.NodeIP, func(a addresses) fmt.Stringer { return a.NodeIP }),
	}
}

// healthy returns a check that a GET of url returns status 200.
func (n *Node) healthy(url string) func(context.Context) error {
	return func(ctx context.Context) error {
		client, err := n.prober()
		if err != nil {
			return err
		}
		return controlplane.GetOK(ctx, client, url)
	}
}

func (n *Node) dialContainerd(ctx context.Context) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", n.containerdSocket())
	if err != nil {
		return err
	}
	return conn.Close()
}
