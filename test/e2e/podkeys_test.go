//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	s.renewed = func(t *testing.T, c *cluster, _ before) { s.note(c.switchesKeys(t, web)) }
	s.succeeded = func(t *testing.T, c *cluster) {
		serving(t, c)
		s.note(c.succeedsWithPodKeys(t, web, []server{db, agent}))
	}
	s.rebooted = serving
	s.alone = func(t *testing.T, c *cluster) {
		if c.machine != nil {
			c.forgetsKeys(t, all)
			s.note(c.refreshes(t, agent))
		}
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

// switchesKeys takes the server's key from its Secret, from its pods and from the Secret
// again, and so on, by one annotation and a rollout each. The clients shake hands with it
// all the while. At the end its pods have the keys, and the Secret is deleted. It returns
// how many handshakes there were.
func (c *cluster) switchesKeys(t *testing.T, s server) string {
	t.Helper()
	before := c.shaken(t, s)
	for _, source := range []api.KeySource{api.KeySourceSecret, api.KeySourcePod, api.KeySourceSecret, api.KeySourcePod} {
		c.annotate(t, s, api.AnnotationKeySource, string(source))
		if source == api.KeySourceSecret { // the pods wait for it
			eventually(t, settling, "the Secret of "+s.name(), func(ctx context.Context) error {
				_, err := c.currentLeaf(ctx, s.namespace, s.service)
				return err
			})
		}
		c.rollsOut(t, s)
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
	after := c.shaken(t, s)
	require.Greater(t, after.handshakes, before.handshakes)
	require.Equal(t, before.failed, after.failed, "handshakes failed while the source of the key changed:\n%s", strings.Join(after.first, "\n"))
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: s.secret}}
	require.NoError(t, c.admin.Delete(t.Context(), secret))
	c.servesPodKeys(t, s, s.url("/"), s.name())
	c.noSecret(t, s.namespace)
	c.noKeyInEtcd(t, s.namespace)
	return fmt.Sprintf("to a Secret and back, twice: %d handshakes with it, %d failed", after.handshakes-before.handshakes, after.failed-before.failed)
}

// rollsOut restarts the server's Deployment, and returns when only new pods are there.
func (c *cluster) rollsOut(t *testing.T, s server) {
	t.Helper()
	_, err := c.run(t.Context(), c.tools.kubectl, "rollout", "restart", "--namespace", s.namespace, "deployment", s.service)
	require.NoError(t, err)
	eventually(t, starting, s.name()+" is restarted", func(ctx context.Context) error { return c.rolledOut(ctx, s.namespace, s.service) })
}

// tally is how many handshakes there were with a server, by its name, of all clients, and the
// first failures.
type tally struct {
	handshakes, failed int
	first              []string
}

func (c *cluster) shaken(t *testing.T, s server) (sum tally) {
	t.Helper()
	for _, name := range clients {
		report, err := c.report(t.Context(), name)
		require.NoError(t, err)
		account, ok := report.Of(s.target())
		require.True(t, ok, "client %s does not follow %s", name, s.name())
		sum.handshakes += account.Handshakes
		sum.failed += account.Failed
		sum.first = append(sum.first, failuresOf(name, account)...)
	}
	return sum
}

// succeedsWithPodKeys fails the test unless new pods of the server have certificates of the
// second generation of the CA, which a client accepts that knows the first root only, while
// the others go on with certificates of the first generation, which no kubelet can be made
// to replace. It returns the number of handshakes with all of them since the beginning.
func (c *cluster) succeedsWithPodKeys(t *testing.T, s server, others []server) string {
	t.Helper()
	c.rollsOut(t, s)
	eventually(t, propagating, s.name()+" is served by the second generation", func(ctx context.Context) error {
		return errors.Join(c.lastIssuer(ctx, attentive, s, "2"), c.lastIssuer(ctx, ofOld, s, "2"))
	})
	sum := c.shaken(t, s)
	for _, other := range others {
		require.NoError(t, c.lastIssuer(t.Context(), attentive, other, "1"))
		its := c.shaken(t, other)
		sum.handshakes += its.handshakes
		sum.failed += its.failed
		sum.first = append(sum.first, its.first...)
	}
	require.Zero(t, sum.failed, strings.Join(sum.first, "\n"))
	return fmt.Sprintf("through a forced succession, certificates of both generations: %d handshakes with its servers, %d failed", sum.handshakes, sum.failed)
}

// lastIssuer is nil if the generation has signed what the client saw of the server last.
func (c *cluster) lastIssuer(ctx context.Context, name string, s server, generation string) error {
	report, err := c.report(ctx, name)
	if err != nil {
		return err
	}
	account, _ := report.Of(s.target())
	if issuer := account.Latest().Issuer; !isOfGeneration(issuer, generation) {
		return fmt.Errorf("client %s: %s serves a certificate of %q; want generation %s", name, s.name(), issuer, generation)
	}
	return nil
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
