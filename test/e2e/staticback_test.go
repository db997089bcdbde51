//go:build e2e

package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

// fragile is a static pod that fails with some certificates.
var fragile = server{namespace: "e2e-static", service: "fragile", secret: "fragile-tls", port: 10344}

// fragileConfig is a configuration of nginx without a cipher for ECDSA keys: with such a certificate, it
// starts, but all handshakes fail.
const fragileConfig = `daemon off;
user root;
worker_processes 1;
pid /tmp/nginx.pid;
error_log stderr;
events {}
http {
  access_log off;
  client_body_temp_path /tmp/body;
  proxy_temp_path       /tmp/proxy;
  fastcgi_temp_path     /tmp/fastcgi;
  uwsgi_temp_path       /tmp/uwsgi;
  scgi_temp_path        /tmp/scgi;
  server {
    listen 10344 ssl;
    ssl_protocols       TLSv1.2;
    ssl_ciphers         ECDHE-RSA-AES128-GCM-SHA256;
    ssl_certificate     /fragile/serving-cert/tls.crt;
    ssl_certificate_key /fragile/serving-cert/tls.key;
  }
}
`

// original is a file that an installer wrote on the node.
type original struct {
	path, content string
	mode          fs.FileMode
}

// originalOwner is the owner of files that an installer wrote.
const originalOwner = 1234

func (c *cluster) originals() []original {
	return []original{
		{c.ofNode("fragile", "serving-cert", "tls.crt"), "a certificate\n", 0o644},
		{c.ofNode("fragile", "serving-cert", "tls.key"), "a key\n", 0o640},
		{c.ofNode("fragile", "anchor.crt"), "a CA\n\n", 0o664},
	}
}

// startFragile starts hostsync with files of an installer in place, and then the static pod.
func (c *cluster) startFragile(t *testing.T) {
	t.Helper()
	for _, o := range c.originals() {
		require.NoError(t, os.MkdirAll(filepath.Dir(o.path), 0o755))
		require.NoError(t, os.WriteFile(o.path, []byte(o.content), 0o600))
		require.NoError(t, os.Chmod(o.path, o.mode)) // independent of the umask
		require.NoError(t, os.Chown(o.path, originalOwner, originalOwner))
	}
	config := strings.ReplaceAll(fragileConfig, "/fragile", c.ofNode("fragile"))
	require.NoError(t, os.WriteFile(c.ofNode("fragile", "nginx.conf"), []byte(config), 0o600))
	c.apply(t, "statichosts.yaml", "FRAGILE", c.ofNode("fragile"), "MANIFESTS", c.ofNode("manifests"), "IMAGE", c.hostsyncImage(t))
	eventually(t, starting, "hostsync has taken over the files", func(context.Context) error {
		_, err := c.fragileHolds()
		return err
	})
	manifest, err := manifests.ReadFile("manifests/staticfragile.yaml")
	require.NoError(t, err)
	c.writeManifest(t, fragile, strings.ReplaceAll(string(manifest), "/fragile", c.ofNode("fragile")))
	c.servesRSA(t, "the first certificate is served")
}

// fragileServes returns the certificate that the static pod serves.
func (c *cluster) fragileServes(ctx context.Context) (*x509.Certificate, error) {
	dialer := &tls.Dialer{NetDialer: c.machine.Dialer(), Config: &tls.Config{InsecureSkipVerify: true, ServerName: fragile.name()}} //nolint:gosec // any certificate is returned
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(c.machine.NodeIP.String(), "10344"))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0], nil
}

// servesRSA fails the test unless the static pod serves an RSA certificate, and hostsync has it in its store.
func (c *cluster) servesRSA(t *testing.T, what string) {
	t.Helper()
	eventually(t, propagating, what, func(ctx context.Context) error {
		leaf, err := c.fragileServes(ctx)
		if err != nil {
			return err
		}
		held, err := c.fragileHolds()
		if err == nil && (!leaf.Equal(held) || leaf.PublicKeyAlgorithm != x509.RSA) {
			err = fmt.Errorf("the served key is %s, that in the store %s", leaf.PublicKeyAlgorithm, held.PublicKeyAlgorithm)
		}
		return err
	})
}

// fragileHolds returns the certificate in the store, which must match its key.
func (c *cluster) fragileHolds() (*x509.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(c.ofNode("fragile", "serving-cert", "tls.crt"), c.ofNode("fragile", "serving-cert", "tls.key"))
	return pair.Leaf, err
}

// goesBack gives the static pod a certificate that it cannot serve, and checks the rollback.
func (c *cluster) goesBack(t *testing.T, s *scene) {
	t.Helper()
	start := time.Now()
	c.annotate(t, fragile, api.AnnotationKeyAlgorithm, string(pki.ECDSAP256))
	var died time.Duration
	eventually(t, propagating, "handshakes fail with the new certificate", func(ctx context.Context) error {
		if leaf, err := c.fragileServes(ctx); err == nil {
			return fmt.Errorf("a certificate with an %s key is served", leaf.PublicKeyAlgorithm)
		}
		held, err := c.fragileHolds()
		if err != nil || held.PublicKeyAlgorithm != x509.ECDSA {
			return errors.Join(errors.New("handshakes fail for another reason"), err)
		}
		died = time.Since(start)
		return nil
	})
	c.servesRSA(t, "the previous certificate is served again")
	s.note(fmt.Sprintf("nginx without a cipher for the new key failed %s after the change, and was rolled back %s later", seconds(died), seconds(time.Since(start)-died)))
	eventually(t, settling, "an event of hostsync's pod contains the reason", func(ctx context.Context) error {
		said, err := c.events(ctx, fragile.namespace, "Pod", "", "Unhealthy")
		if err == nil && !strings.Contains(said, "store fragile: RolledBack: rolled back to the previous certificate: 127.0.0.1:10344 served a certificate before the switch, but not the new one within 45s of the action") {
			err = fmt.Errorf("event %s", said)
		}
		return err
	})
	metrics, err := c.ofHostsync(t.Context(), "/metrics")
	require.NoError(t, err)
	// The CA succeeds meanwhile: if its certificate comes before the annotation is back, that one is rolled back too.
	require.Regexp(t, `servingcert_host_store_rollbacks_total\{store="fragile"} [12]\n`, metrics)
	c.annotate(t, fragile, api.AnnotationKeyAlgorithm, string(pki.RSA2048))
}

// ofHostsync returns a page of hostsync on the node.
func (c *cluster) ofHostsync(ctx context.Context, path string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(c.machine.NodeIP.String(), "15444")+path, http.NoBody)
	if err != nil {
		return "", err
	}
	response, err := (&http.Client{Timeout: 10 * time.Second}).Do(request)
	if err != nil {
		return "", err
	}
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s: %s", path, response.Status, body)
	}
	return string(body), errors.Join(err, response.Body.Close())
}

// leavesOriginals checks that another certificate is installed, and that hostsync restores the original files at its end.
func (c *cluster) leavesOriginals(t *testing.T) {
	t.Helper()
	eventually(t, propagating, "another certificate is installed, and no store has a problem", func(ctx context.Context) error {
		leaf, err := c.currentLeaf(ctx, fragile.namespace, fragile.service)
		if err != nil {
			return err
		}
		if held, err := c.fragileHolds(); err != nil || pki.Fingerprint(held) != leaf {
			return errors.Join(errors.New("the store does not have the Secret's certificate"), err)
		}
		_, err = c.ofHostsync(ctx, "/readyz")
		return err
	})
	c.servesRSA(t, "the other certificate is served")
	c.endStatic(t, fragile)
	set := &appsv1.DaemonSet{}
	require.NoError(t, c.admin.Get(t.Context(), client.ObjectKey{Namespace: fragile.namespace, Name: "hostsync-fragile"}, set))
	require.NoError(t, c.admin.Delete(t.Context(), set.DeepCopy(), client.PropagationPolicy(metav1.DeletePropagationForeground)))
	eventually(t, starting, "hostsync has stopped", func(ctx context.Context) error {
		err := c.admin.Get(ctx, client.ObjectKeyFromObject(set), &appsv1.DaemonSet{})
		if err == nil {
			return fmt.Errorf("DaemonSet %s still exists", set.Name)
		}
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
	// As in docs/hosts.md: a pod with the volumes of the DaemonSet's.
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: fragile.namespace, Name: "hostsync-remove"}, Spec: set.Spec.Template.Spec}
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	remove := pod.Spec.Containers[0]
	remove.ReadinessProbe, pod.Spec.Containers = nil, nil
	for _, store := range []string{"fragile", "anchor"} {
		remove.Name, remove.Args = store, []string{"remove", "--dir=" + c.ofNode("fragile", "stores"), "--store=" + store}
		pod.Spec.Containers = append(pod.Spec.Containers, remove)
	}
	require.NoError(t, c.admin.Create(t.Context(), pod))
	eventually(t, starting, "hostsync remove", func(ctx context.Context) error {
		err := c.admin.Get(ctx, client.ObjectKeyFromObject(pod), pod)
		if err == nil && pod.Status.Phase != corev1.PodSucceeded {
			err = fmt.Errorf("the pod is %s: %v", pod.Status.Phase, pod.Status.ContainerStatuses)
		}
		return err
	})
	for _, o := range c.originals() {
		data, err := os.ReadFile(o.path)
		require.NoError(t, err)
		require.Equal(t, o.content, string(data), o.path)
		info, err := os.Stat(o.path)
		require.NoError(t, err)
		require.Equal(t, o.mode, info.Mode().Perm(), o.path)
		owner := info.Sys().(*syscall.Stat_t)
		require.Equal(t, []uint32{originalOwner, originalOwner}, []uint32{owner.Uid, owner.Gid}, o.path)
	}
	left, err := filepath.Glob(c.ofNode("fragile", "*"))
	require.NoError(t, err)
	require.Equal(t, []string{c.ofNode("fragile", "anchor.crt"), c.ofNode("fragile", "nginx.conf"), c.ofNode("fragile", "serving-cert"), c.ofNode("fragile", "stores")}, left)
	require.NoError(t, os.Remove(c.ofNode("fragile", "stores")), "the directory is empty")
}
