//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
)

// podKeysScene: the kubelet makes the keys, and no Secret holds one. What serves them is
// the server that reads its files again, in each kind of workload.
func podKeysScene() *scene {
	web := server{namespace: "e2e-podkeys", service: "web", secret: "web-tls", port: 8443, podKeys: true}
	db := server{namespace: "e2e-podkeys", service: "db", port: 8443, headless: true, podKeys: true}
	agent := server{namespace: "e2e-podkeys", service: "agent", port: 8443, podKeys: true}
	all := []server{web, db, agent}
	s := &scene{
		name: "podkeys", about: "keys made by the kubelet, for a Deployment, a StatefulSet and a DaemonSet", manifest: "podkeys.yaml",
		servers: all,
	}
	serving := func(t *testing.T, c *cluster) {
		for _, srv := range all {
			c.servesPodKeys(t, srv, srv.url("/"), srv.name())
		}
		for _, pod := range []string{"db-0", "db-1"} {
			name := pod + "." + db.name()
			c.servesPodKeys(t, db, "https://"+name+":8443/", name)
		}
	}
	s.up = func(t *testing.T, c *cluster) {
		eventually(t, starting, web.namespace, func(ctx context.Context) error { return c.rolledOut(ctx, web.namespace, "") })
		serving(t, c)
		c.noSecret(t, web.namespace)
		c.noKeyInEtcd(t, web.namespace)
	}
	s.renewed = func(t *testing.T, c *cluster, _ before) { c.switchesKeys(t, web) }
	s.succeeded = serving
	s.rebooted = serving
	s.alone = func(t *testing.T, c *cluster) {
		c.forgetsKeys(t, all)
		c.awaitsSigner(t, web)
		s.note(c.noFailure(t))
	}
	return s
}

// servesPodKeys fails the test unless the server answers at the URL, with a certificate
// for the name.
func (c *cluster) servesPodKeys(t *testing.T, s server, url, name string) {
	t.Helper()
	eventually(t, propagating, "fetch "+url, func(ctx context.Context) error {
		if err := c.says(ctx, s.namespace, s.service, api.ConditionReady, "True", api.ReasonPodKeys); err != nil {
			return err
		}
		return c.fetches(ctx, url, "hello from "+s.service+"-", "", name)
	})
}

// noSecret fails the test if a Secret of the namespace is managed.
func (c *cluster) noSecret(t *testing.T, namespace string) {
	t.Helper()
	var secrets corev1.SecretList
	require.NoError(t, c.admin.List(t.Context(), &secrets, client.InNamespace(namespace), client.HasLabels{api.LabelManagedBy}))
	assert.Empty(t, secrets.Items)
}

// switchesKeys takes the server's key from its Secret and back, by one annotation and a
// rollout each. The clients shake hands with it all the while.
func (c *cluster) switchesKeys(t *testing.T, s server) {
	t.Helper()
	for _, source := range []api.KeySource{api.KeySourceSecret, api.KeySourcePod} {
		c.annotate(t, s, api.AnnotationKeySource, string(source))
		if source == api.KeySourceSecret { // the pods wait for it
			eventually(t, settling, "the Secret of "+s.name(), func(ctx context.Context) error {
				_, err := c.currentLeaf(ctx, s.namespace, s.service)
				return err
			})
		}
		_, err := c.run(t.Context(), c.tools.kubectl, "rollout", "restart", "--namespace", s.namespace, "deployment", s.service)
		require.NoError(t, err)
		eventually(t, starting, s.name()+" is restarted", func(ctx context.Context) error { return c.rolledOut(ctx, s.namespace, s.service) })
		if source == api.KeySourceSecret {
			c.serves(t, s, "/", "hello from web-")
		} else {
			c.servesPodKeys(t, s, s.url("/"), s.name())
		}
		pods, err := c.podsOf(t.Context(), s)
		require.NoError(t, err)
		for i := range pods {
			require.NoError(t, hasKeysOf(&pods[i], source))
		}
	}
}

// hasKeysOf is nil if the pod's volume has the key from there.
func hasKeysOf(pod *corev1.Pod, source api.KeySource) error {
	for _, v := range pod.Spec.Volumes {
		if v.Name != "servingcert" || v.Projected == nil {
			continue
		}
		if byPod := v.Projected.Sources[0].PodCertificate != nil; byPod != (source == api.KeySourcePod) {
			return fmt.Errorf("pod %s: the key is made by its kubelet: %v; want %s", pod.Name, byPod, source)
		}
		return nil
	}
	return fmt.Errorf("pod %s has no volume", pod.Name)
}
