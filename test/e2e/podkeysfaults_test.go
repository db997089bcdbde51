//go:build e2e

package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/pkg/api"
)

// forgetsKeys restarts the kubelet, which then generates new keys for its pods. The servers reload them
// without a restart.
func (c *cluster) forgetsKeys(t *testing.T, servers []server) {
	t.Helper()
	before := c.keyHolders(t, servers)
	require.NoError(t, c.machine.Restart(t.Context(), controlplane.Kubelet))
	c.haveOtherKeys(t, servers, before, propagating)
}

// holders are processes, and the served public keys by UID of the pod.
type holders struct {
	processes map[string]processes // by the name of the server
	keys      map[types.UID]string
}

func (c *cluster) keyHolders(t *testing.T, servers []server) holders {
	t.Helper()
	h := holders{processes: map[string]processes{}, keys: map[types.UID]string{}}
	for _, s := range servers {
		var err error
		h.processes[s.name()], err = c.processesOf(t.Context(), s)
		require.NoError(t, err)
		keys, err := c.keysOf(t.Context(), s)
		require.NoError(t, err)
		maps.Copy(h.keys, keys)
	}
	return h
}

// haveOtherKeys fails the test unless all pods of the servers serve another key within the limit, with
// the same processes.
func (c *cluster) haveOtherKeys(t *testing.T, servers []server, before holders, limit time.Duration) {
	t.Helper()
	for _, s := range servers {
		eventually(t, limit, s.name()+" has new keys", func(ctx context.Context) error {
			keys, err := c.keysOf(ctx, s)
			for pod, key := range keys {
				if before.keys[pod] == key {
					err = errors.Join(err, fmt.Errorf("pod %s has the previous key", pod))
				}
			}
			return err
		})
		after, err := c.processesOf(t.Context(), s)
		require.NoError(t, err)
		assert.Equal(t, before.processes[s.name()], after, "pods of %s, and their restarts", s.name())
	}
}

// keysOf returns the public key that each pod of the server serves, by the pod's UID.
func (c *cluster) keysOf(ctx context.Context, s server) (map[types.UID]string, error) {
	leaves, err := c.leavesOf(ctx, s)
	keys := map[types.UID]string{}
	for pod, leaf := range leaves {
		keys[pod] = string(leaf.RawSubjectPublicKeyInfo)
	}
	return keys, err
}

// leavesOf returns the verified certificate that each pod of the server serves, by the pod's UID.
func (c *cluster) leavesOf(ctx context.Context, s server) (map[types.UID]*x509.Certificate, error) {
	bundle := &corev1.ConfigMap{}
	if err := c.admin.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: api.BundleName}, bundle); err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(bundle.Data[api.BundleKey]))
	pods, err := c.podsOf(ctx, s)
	if err != nil {
		return nil, err
	}
	leaves := map[types.UID]*x509.Certificate{}
	for i := range pods {
		target := s.atPod(&pods[i])
		raw, err := c.machine.Dialer().DialContext(ctx, "tcp", target.Address)
		if err != nil {
			return nil, err
		}
		conn := tls.Client(raw, &tls.Config{RootCAs: roots, ServerName: target.Name, MinVersion: tls.VersionTLS12})
		err = conn.HandshakeContext(ctx)
		_ = raw.Close() // no request was made
		if err != nil {
			return nil, fmt.Errorf("pod %s: %w", pods[i].Name, err)
		}
		leaves[pods[i].UID] = conn.ConnectionState().PeerCertificates[0]
	}
	return leaves, nil
}

// awaitsSigner starts a pod of the Deployment while no signer runs: it waits, and starts once a signer runs.
func (c *cluster) awaitsSigner(t *testing.T, s server) {
	t.Helper()
	var waiting *corev1.Pod
	var start time.Time
	c.withoutSigner(t, func() {
		web := client.ObjectKey{Namespace: s.namespace, Name: s.service}
		c.scale(t, web, c.scaleOf(t, web)+1)
		eventually(t, settling, "the pod's request", func(ctx context.Context) (err error) {
			waiting, err = c.waitingPod(ctx, s)
			return err
		})
		start = time.Now()
	})
	eventually(t, starting, "the pod that has waited", func(ctx context.Context) error { return c.rolledOut(ctx, s.namespace, s.service) })
	t.Logf("started within %s of the signer's start", seconds(time.Since(start)))
	pod := &corev1.Pod{}
	require.NoError(t, c.admin.Get(t.Context(), client.ObjectKeyFromObject(waiting), pod))
	assert.Equal(t, waiting.UID, pod.UID)
	assert.True(t, isReady(pod))
	assert.Zero(t, restartsOf(pod))
}

// withoutSigner calls do while no signer runs, and returns when one runs again.
func (c *cluster) withoutSigner(t *testing.T, do func()) {
	t.Helper()
	signer := client.ObjectKey{Namespace: api.DefaultNamespace, Name: "servingcert-signer"}
	had := c.scale(t, signer, 0)
	eventually(t, starting, "the signer is stopped", func(ctx context.Context) error {
		pods := &corev1.PodList{}
		err := c.admin.List(ctx, pods, client.InNamespace(signer.Namespace), client.MatchingLabels{"app.kubernetes.io/name": "signer"})
		if err == nil && len(pods.Items) > 0 {
			err = fmt.Errorf("%d pods of it exist", len(pods.Items))
		}
		return err
	})
	do()
	c.scale(t, signer, had)
	eventually(t, starting, "the signer runs again", func(ctx context.Context) error { return c.rolledOut(ctx, signer.Namespace, signer.Name) })
}

// waitingPod returns the pod of the server whose kubelet has requested a certificate and has no answer.
func (c *cluster) waitingPod(ctx context.Context, s server) (*corev1.Pod, error) {
	requests, err := c.certificates.PodCertificateRequests(s.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	pods, err := c.podsOf(ctx, s)
	if err != nil {
		return nil, err
	}
	for i := range pods {
		if hasOpenRequest(&pods[i], requests.Items) {
			if pods[i].Status.Phase != corev1.PodPending {
				return nil, fmt.Errorf("pod %s is %s without a certificate", pods[i].Name, pods[i].Status.Phase)
			}
			return &pods[i], nil
		}
	}
	return nil, fmt.Errorf("none of %d pods is waiting", len(pods))
}

func hasOpenRequest(pod *corev1.Pod, requests []certificatesv1.PodCertificateRequest) bool {
	for i := range requests {
		if r := &requests[i]; r.Spec.PodUID == pod.UID && len(r.Status.Conditions) == 0 {
			return true
		}
	}
	return false
}

// scaleOf returns the number of replicas of a Deployment.
func (c *cluster) scaleOf(t *testing.T, name client.ObjectKey) int32 {
	t.Helper()
	deployment := &appsv1.Deployment{}
	require.NoError(t, c.admin.Get(t.Context(), name, deployment))
	return *deployment.Spec.Replicas
}

// scale sets the number of replicas of a Deployment, and returns the previous one.
func (c *cluster) scale(t *testing.T, name client.ObjectKey, replicas int32) (was int32) {
	t.Helper()
	was = c.scaleOf(t, name)
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}}
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
	require.NoError(t, c.admin.Patch(t.Context(), deployment, client.RawPatch(types.MergePatchType, patch)))
	return was
}
