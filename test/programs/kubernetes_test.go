//go:build linux

package programs

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/pkg/pki"
)

// components are programs of Kubernetes and others that talk to its API server. Without a
// certificate they make one of their own.
var components = []program{
	{
		name: "kube-apiserver", command: []string{"kube-apiserver"}, source: kubernetes, executable: controlplane.KubeAPIServer,
		once: true, // it keeps the certificate that it makes in a directory of root's
		prepare: func(t *testing.T, s *site) {
			s.startEtcd(t)
			key, err := pki.GenerateKey(pki.RSA2048) // it does not find the public half of an ECDSA key in PKCS #8
			require.NoError(t, err)
			pem, err := pki.EncodeKey(key)
			require.NoError(t, err)
			s.write(t, "accounts.key", pem)
		},
		args: []string{
			"--etcd-servers=http://{at}:2379", "--bind-address={at}", "--secure-port=6443", "--service-cluster-ip-range=10.96.0.0/16",
			"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file={work}/accounts.key", "--service-account-signing-key-file={work}/accounts.key",
			"--advertise-address=192.0.2.1", "--endpoint-reconciler-type=none",
		},
		port: 6443,
	},
	{
		name: "kube-controller-manager", command: []string{"kube-controller-manager"}, source: kubernetes, executable: controlplane.KubeControllerManager,
		prepare: writeKubeconfig,
		args:    []string{"--kubeconfig={work}/kubeconfig", "--bind-address={at}", "--leader-elect=false", "--controllers=cronjob-controller"},
		port:    10257,
	},
	{
		name: "kube-rbac-proxy", image: "quay.io/brancz/kube-rbac-proxy:v0.19.0", source: rbacProxy, executable: "kube-rbac-proxy",
		prepare: writeKubeconfig,
		args:    []string{"--secure-listen-address={at}:8443", "--upstream=http://127.0.0.1:1/", "--kubeconfig={work}/kubeconfig"},
		port:    8443,
	},
	{
		name: "kube-scheduler", command: []string{"kube-scheduler"}, source: kubernetes, executable: controlplane.KubeScheduler,
		prepare: writeKubeconfig,
		args:    []string{"--kubeconfig={work}/kubeconfig", "--bind-address={at}", "--leader-elect=false"},
		port:    10259,
	},
	{
		name: "metrics-server", image: "registry.k8s.io/metrics-server/metrics-server:v0.8.0", source: kubernetes, executable: controlplane.MetricsServer,
		prepare: writeKubeconfig,
		args: []string{
			"--kubeconfig={work}/kubeconfig", "--authentication-kubeconfig={work}/kubeconfig", "--authorization-kubeconfig={work}/kubeconfig",
			"--bind-address={at}", "--secure-port=10250",
		},
		port: 10250,
	},
}
