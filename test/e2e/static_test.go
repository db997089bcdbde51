//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// staticScene: kube-scheduler and kube-controller-manager as static pods, which cannot use Secrets, serve the
// certificates of annotated Services. hostsync writes their files, and they are not restarted.
func staticScene() *scene {
	scheduler := server{namespace: "e2e-static", service: "scheduler", secret: "scheduler-tls", port: 10359, reloads: true}
	manager := server{namespace: "e2e-static", service: "manager", secret: "manager-tls", port: 10357, reloads: true}
	all := []server{scheduler, manager}
	played := &scene{
		name: "static", about: "kube-scheduler and kube-controller-manager as static pods, with files from hostsync; a rollback", manifest: "static.yaml",
		servers: all,
		leftOut: func(c *cluster) string {
			if c.machine == nil {
				return "writes files on the node"
			}
			return ""
		},
		up: func(t *testing.T, c *cluster) {
			for _, s := range all {
				c.startStatic(t, s)
				c.starts(t, s, "/healthz", "ok")
			}
			c.startFragile(t)
		},
		last: func(t *testing.T, c *cluster) { // the kubelet restores the pods in its directory if they are deleted
			for _, s := range all {
				c.endStatic(t, s)
			}
			c.leavesOriginals(t)
		},
	}
	played.renewed = func(t *testing.T, c *cluster, _ before) {
		for _, s := range all {
			c.serves(t, s, "/healthz", "ok")
		}
		c.goesBack(t, played)
	}
	return played
}

func (c *cluster) endStatic(t *testing.T, s server) {
	t.Helper()
	require.NoError(t, os.Remove(c.manifestOf(s)))
	eventually(t, starting, "the static pod is gone", func(ctx context.Context) error {
		pods, err := c.clients.CoreV1().Pods(s.namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + s.service})
		if err == nil && len(pods.Items) > 0 {
			err = fmt.Errorf("pod %s still exists", pods.Items[0].Name)
		}
		return err
	})
}

// ofNode returns a path in the node's directory.
func (c *cluster) ofNode(elem ...string) string {
	return filepath.Join(append([]string{filepath.Dir(c.machine.LogDir())}, elem...)...)
}

// manifestOf returns the file from which the node's kubelet runs a static pod.
func (c *cluster) manifestOf(s server) string { return c.ofNode("manifests", s.service+".yaml") }

// startStatic follows docs/hosts.md: first hostsync, which fills the directory, then the manifest.
func (c *cluster) startStatic(t *testing.T, s server) {
	t.Helper()
	files, stores := c.ofNode("host-files"), c.ofNode("certificates")
	require.NoError(t, os.MkdirAll(files, 0o700))
	kubeconfig, err := os.ReadFile(c.machine.Kubeconfig())
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(files, "host.conf"), kubeconfig, 0o600))
	manifest, err := manifests.ReadFile("manifests/static" + s.service + ".yaml")
	require.NoError(t, err)
	plain := filepath.Join(t.TempDir(), s.service+".yaml")
	require.NoError(t, os.WriteFile(plain, []byte(strings.ReplaceAll(string(manifest), "/host-files", files)), 0o600))

	node := &corev1.Node{}
	nodes := &corev1.NodeList{}
	require.NoError(t, c.admin.List(t.Context(), nodes))
	*node = nodes.Items[0]
	label := []byte(`{"metadata":{"labels":{"node-role.kubernetes.io/control-plane":""}}}`)
	require.NoError(t, c.admin.Patch(t.Context(), node, client.RawPatch(types.MergePatchType, label)))

	inject := func(args ...string) string {
		out, err := c.run(t.Context(), c.tools.plugin, append([]string{"inject", "--host", "--host-dir", stores, "-f", plain}, args...)...)
		require.NoError(t, err)
		return out
	}
	set := filepath.Join(t.TempDir(), "hostsync.yaml")
	require.NoError(t, os.WriteFile(set, []byte(inject("-o", "hostsync", "--hostsync-image", c.hostsyncImage(t))), 0o600))
	_, err = c.run(t.Context(), c.tools.kubectl, "apply", "-f", set)
	require.NoError(t, err)
	eventually(t, starting, "hostsync has written the certificate", func(context.Context) error {
		_, err := os.Stat(filepath.Join(stores, s.service, "current", "tls.crt"))
		return err
	})
	c.writeManifest(t, s, inject())
}

// hostsyncImage returns the image that was built with the installed ones.
func (c *cluster) hostsyncImage(t *testing.T) string {
	t.Helper()
	webhook, err := c.clients.AppsV1().Deployments("servingcert-system").Get(t.Context(), "servingcert-webhook", metav1.GetOptions{})
	require.NoError(t, err)
	return strings.Replace(webhook.Spec.Template.Spec.Containers[0].Image, "/webhook:", "/hostsync:", 1)
}

// writeManifest makes the node's kubelet run a static pod.
func (c *cluster) writeManifest(t *testing.T, s server, manifest string) {
	t.Helper()
	at := c.manifestOf(s)
	require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o755))
	require.NoError(t, os.WriteFile(at+".tmp", []byte(manifest), 0o600))
	require.NoError(t, os.Rename(at+".tmp", at))
}
