package cli

import (
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/netip"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilrand "k8s.io/apimachinery/pkg/util/rand"

	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/integration/harness"
	"github.com/servingcert/servingcert/test/signertest"
)

// node is one whose kubelet the test plays, with the rights that a kubelet has.
type node struct {
	name         string
	uid          types.UID
	certificates controlplane.Certificates // as its kubelet
}

func newNode(t *testing.T) node {
	t.Helper()
	harness.Needs(t, plane.AdminConfig(), controlplane.PodCertificates)
	n := node{name: "node-" + utilrand.String(6)}
	cfg, err := plane.UserConfig("system:node:"+n.name, "system:nodes")
	require.NoError(t, err)
	n.certificates, err = controlplane.CertificatesOf(t.Context(), cfg)
	require.NoError(t, err)
	made, err := admin.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.name}}, metav1.CreateOptions{})
	require.NoError(t, err)
	n.uid = made.UID
	return n
}

// bind makes a pod of a Deployment on the node, with a key of its own, or with the key in a
// Secret that is named.
func (n node) bind(t *testing.T, namespace, deployment, name string, onRotate api.OnRotate, secret ...string) *corev1.Pod {
	t.Helper()
	yes := true
	volume := controlplane.PodCertificateVolume(api.SignerName)
	for _, s := range secret {
		volume.Projected.Sources[0] = corev1.VolumeProjection{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: s}}}
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{"app": deployment, "pod-template-hash": "abc"}, Annotations: map[string]string{api.AnnotationOnRotate: string(onRotate)},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: deployment + "-abc", UID: types.UID(deployment), Controller: &yes}},
		},
		Spec: corev1.PodSpec{
			NodeName:   n.name,
			Containers: []corev1.Container{{Name: "c", Image: "example.com/c"}},
			Volumes:    []corev1.Volume{volume},
		},
	}
	var made *corev1.Pod
	harness.Eventually(t, func() (err error) { // the ServiceAccount "default" comes a moment after the namespace
		made, err = admin.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{})
		return err
	})
	return made
}

// certificate makes a key for the pod, and asks for its certificate as a kubelet does.
func (n node) certificate(t *testing.T, pod *corev1.Pod) tls.Certificate {
	t.Helper()
	key := signertest.Key(t, pki.ECDSAP256)
	account, err := admin.CoreV1().ServiceAccounts(pod.Namespace).Get(t.Context(), pod.Spec.ServiceAccountName, metav1.GetOptions{})
	require.NoError(t, err)
	request := &certificatesv1.PodCertificateRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "req-"},
		Spec: certificatesv1.PodCertificateRequestSpec{
			SignerName: api.SignerName, PodName: pod.Name, PodUID: pod.UID, NodeName: types.NodeName(n.name), NodeUID: n.uid,
			ServiceAccountName: account.Name, ServiceAccountUID: account.UID, StubPKCS10Request: signertest.CSR(t, key),
		},
	}
	requests := n.certificates.PodCertificateRequests(pod.Namespace)
	harness.Eventually(t, func() error { // the API server looks for the pod in a cache
		made, err := requests.Create(t.Context(), request, metav1.CreateOptions{})
		if err == nil {
			request = made
		}
		return err
	})
	certificates, err := controlplane.CertificatesOf(t.Context(), plane.AdminConfig())
	require.NoError(t, err)
	var chain []*x509.Certificate
	harness.Eventually(t, func() error {
		answered, err := certificates.PodCertificateRequests(pod.Namespace).Get(t.Context(), request.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if answered.Status.CertificateChain == "" {
			return fmt.Errorf("request %s has no certificate: %v", request.Name, answered.Status.Conditions)
		}
		chain, err = pki.ParseCertificates([]byte(answered.Status.CertificateChain))
		return err
	})
	return pair(key, chain)
}

func pair(key crypto.PrivateKey, chain []*x509.Certificate) tls.Certificate {
	out := tls.Certificate{PrivateKey: key}
	for _, c := range chain {
		out.Certificate = append(out.Certificate, c.Raw)
	}
	return out
}

// serve does TLS in the place of the pod, with the certificate of its own key, says that the
// pod is ready, and returns where it listens.
func (n node) serve(t *testing.T, pod *corev1.Pod, port int) string {
	t.Helper()
	own := n.certificate(t, pod)
	return listenAs(t, pod, port, &tls.Config{Certificates: []tls.Certificate{own}})
}

// listenAs does TLS at an address that no other pod of this run has, and says that the pod
// is ready there.
func listenAs(t *testing.T, pod *corev1.Pod, port int, cfg *tls.Config) string {
	t.Helper()
	ip := nextAddress()
	listener, err := tls.Listen("tcp", netip.AddrPortFrom(ip, uint16(port)).String(), cfg)
	require.NoError(t, err)
	address := accept(t, listener)
	patch, err := json.Marshal(map[string]any{"status": map[string]any{
		"phase": corev1.PodRunning, "podIP": ip.String(), "podIPs": []corev1.PodIP{{IP: ip.String()}},
		"conditions": []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
	}})
	require.NoError(t, err)
	_, err = admin.CoreV1().Pods(pod.Namespace).Patch(t.Context(), pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	require.NoError(t, err)
	return address
}

var addresses atomic.Uint32

// nextAddress returns one of 127.6.0.0/16 that no other pod of this run has.
func nextAddress() netip.Addr {
	number := addresses.Add(1)
	return netip.AddrFrom4([4]byte{127, 6, byte(number >> 8), byte(number)})
}
