//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/deploy"
	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/e2e/handshake"
)

// byScript are the servers whose Secrets manifests/SERVICE.sh writes: a person with openssl and kubectl,
// and a user of step-ca.
var byScript = []server{
	{namespace: "e2e-certmanager", service: "person", secret: "person-tls", port: 8443, reloads: true},
	{namespace: "e2e-certmanager", service: "step", secret: "step-tls", port: 8443, reloads: true},
}

// certManagerScene: certificates from cert-manager, from step-ca, and from a person with openssl, are
// mounted and served. After one is renewed, all pods of a program that reloads serve it, and one that
// does not is restarted, if its Service has servingcert.dev/issuer: external. No handshake fails. The
// signer does not change the Secrets.
func certManagerScene() *scene {
	web := server{namespace: "e2e-certmanager", service: "web", secret: "web-cm", port: 8443}
	followed := server{namespace: "e2e-certmanager", service: "followed", secret: "followed-cm", port: 8443, reloads: true}
	// byHand mounts the Secret itself, as charts do, and is not injected.
	byHand := server{namespace: "e2e-certmanager", service: "byhand", secret: "byhand-cm", port: 8443, reloads: true}
	rolled := server{namespace: "e2e-certmanager", service: "rolled", secret: "rolled-cm", port: 8443}
	s := &scene{
		name: "certmanager", about: "a Secret of a real cert-manager, injected and reloaded", manifest: "certmanager.yaml",
		leftOut: func(c *cluster) string {
			if c.machine == nil {
				return "installs cert-manager, which the cluster may already have"
			}
			return ""
		},
	}
	var route handshake.Target
	s.up = func(t *testing.T, c *cluster) {
		crds, err := controlplane.CertManagerCRDs(t.Context())
		require.NoError(t, err)
		objects, err := deploy.Decode(crds)
		require.NoError(t, err)
		for _, crd := range objects {
			require.NoError(t, c.admin.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(crd), client.FieldOwner(owner)))
		}
		c.apply(t, "certmanagerissued.yaml")
		c.apply(t, "certmanagermoved.yaml")
		for _, each := range byScript {
			eventually(t, starting, "a Secret that is not there yet", func(ctx context.Context) error {
				return c.hasCondition(ctx, each.namespace, each.service, api.ConditionReady, "False", "SecretMissing")
			})
			require.NoError(t, os.RemoveAll(filepath.Join(*outDir, each.service))) // the CA of an earlier run
			c.issuesByScript(t, each)
		}
		eventually(t, starting, web.namespace, func(ctx context.Context) error { return c.rolledOut(ctx, web.namespace, "") })
		c.servesForeign(t, web)
		c.mountsForeign(t, web)
		c.givesNothingAway(t, web)
		c.mountsForeign(t, followed)
		c.follows(t, moved)
		route = c.movedRoute(t)
		s.routes = append(s.routes, route)
		for _, each := range append([]server{followed, byHand, rolled}, byScript...) {
			c.follows(t, each)
			secret, err := c.foreign(t.Context(), each)
			require.NoError(t, err)
			targets, err := c.targets(t.Context(), each)
			require.NoError(t, err)
			for _, target := range targets { // from now on no handshake may fail
				target.Roots = string(secret.ca)
				s.routes = append(s.routes, target)
			}
		}
	}
	s.renewed = func(t *testing.T, c *cluster, _ before) {
		c.verifiesAny(t, web.namespace)
		writes, err := watchWrites(t.Context(), c.clients, web.namespace, "")
		require.NoError(t, err)
		rollouts := c.rollouts(t, rolled)
		for _, each := range []server{followed, byHand, rolled} {
			s.note(c.followsRenewal(t, each, "cert-manager", each == rolled, func() { c.renewForeign(t, each.namespace, each.service) }))
		}
		for _, each := range byScript {
			s.note(c.followsRenewal(t, each, each.service+".sh", false, func() { c.issuesByScript(t, each) }))
		}
		var took []time.Duration
		for _, each := range append([]server{followed, byHand}, byScript...) {
			took = append(took, c.followedAfter(t, writes, each)...)
		}
		require.NotEmpty(t, took)
		s.note("followed, from the write of a Secret to the pod that serves it, " + spread(took))
		slices.Sort(took)
		assert.Less(t, took[len(took)/2], 10*time.Second, "unwoken, half of them take more than 37 seconds")
		old, err := c.foreign(t.Context(), web)
		require.NoError(t, err)
		processes, err := c.processesOf(t.Context(), web)
		require.NoError(t, err)
		start := time.Now()
		c.renewForeign(t, web.namespace, "web")
		eventually(t, settling, "cert-manager renews it", func(ctx context.Context) error {
			now, err := c.foreign(ctx, web)
			if err == nil && (now.leaf == old.leaf || slices.Equal(now.key, old.key)) {
				err = errors.New("the certificate is unchanged")
			}
			return err
		})
		renewed := time.Since(start)
		served := c.servesForeign(t, web)
		after, err := c.processesOf(t.Context(), web)
		require.NoError(t, err)
		assert.Equal(t, processes, after, "pods of the server, and restarts of each")
		s.note(fmt.Sprintf("renewed by cert-manager after %s, and served by the same process %s later", seconds(renewed), seconds(served)))
		c.moves(t, route)
		c.verifiesAny(t, web.namespace)
		assert.Equal(t, rollouts+1, c.rollouts(t, rolled), "rollouts of rolled, while the others were renewed")
		handshakes := 0
		for _, route := range s.routes {
			sum := c.shaken(t, route)
			assert.Zero(t, sum.failed, strings.Join(sum.first, "\n"))
			handshakes += sum.handshakes
		}
		s.note(fmt.Sprintf("%d handshakes with followed, byhand, rolled, person, step, and moved, which changed its issuer four times: none failed", handshakes))
	}
	return s
}

// follows fails the test unless the pods of the Service serve the certificate in its Secret, and its
// conditions say so.
func (c *cluster) follows(t *testing.T, s server) {
	t.Helper()
	c.servesForeign(t, s)
	eventually(t, propagating, "conditions of "+s.service, func(ctx context.Context) error {
		if err := c.hasCondition(ctx, s.namespace, s.service, api.ConditionReady, "True", api.ReasonExternal); err != nil {
			return err
		}
		return c.hasCondition(ctx, s.namespace, s.service, api.ConditionServing, "True", api.ServingCurrent)
	})
}

// followsRenewal has the issuer renew the Secret, and fails the test unless all pods serve it and were
// restarted as told: once, or not at all.
func (c *cluster) followsRenewal(t *testing.T, s server, issuer string, restarts bool, renew func()) string {
	t.Helper()
	old, err := c.foreign(t.Context(), s)
	require.NoError(t, err)
	processes, err := c.processesOf(t.Context(), s)
	require.NoError(t, err)
	rollouts := c.rollouts(t, s)
	renew()
	eventually(t, settling, issuer+" renews "+s.secret, func(ctx context.Context) error {
		now, err := c.foreign(ctx, s)
		if err == nil && now.leaf == old.leaf {
			err = errors.New("the certificate is unchanged")
		}
		return err
	})
	took := c.servesForeign(t, s)
	c.follows(t, s)
	after, err := c.processesOf(t.Context(), s)
	require.NoError(t, err)
	text := fmt.Sprintf("%s, renewed by %s: served %s after its Secret was written", s.service, issuer, seconds(took))
	if restarts {
		eventually(t, starting, s.service, func(ctx context.Context) error { return c.rolledOut(ctx, s.namespace, s.service) })
		assert.Equal(t, rollouts+1, c.rollouts(t, s), "rollouts of %s", s.service)
		for pod := range processes {
			assert.NotContains(t, after, pod, "pods of %s", s.service)
		}
		return text + ", by new pods"
	}
	assert.Equal(t, processes, after, "pods of %s, and restarts of each", s.service)
	now, err := c.foreign(t.Context(), s)
	require.NoError(t, err)
	eventually(t, settling, "each pod of "+s.service, func(ctx context.Context) error { return c.servesAtEachPod(ctx, s, now) })
	c.wasWoken(t, s, now.leaf)
	return text
}

// followedAfter returns how long each renewal, of those that were seen, took from the Secret to each pod of the server.
func (c *cluster) followedAfter(t *testing.T, w *writes, s server) (took []time.Duration) {
	t.Helper()
	report, err := c.report(t.Context(), attentive)
	require.NoError(t, err)
	now, err := c.foreign(t.Context(), s)
	require.NoError(t, err)
	targets, err := c.targets(t.Context(), s)
	require.NoError(t, err)
	for _, target := range targets[1:] { // the pods
		target.Roots = string(now.ca)
		account, _ := report.Of(target)
		for _, each := range renewals(w.of(s.namespace, s.secret)) {
			if first, ok := account.FirstServed(each.leaf); ok {
				took = append(took, first.Sub(each.at))
			}
		}
	}
	return took
}

// verifiesAny fails the test unless kubectl servingcert verify --any, by ports that the kubelet forwards, reports that each
// pod of the namespace serves what its Secret holds, and that ca.crt verifies it.
func (c *cluster) verifiesAny(t *testing.T, namespace string) {
	t.Helper()
	eventually(t, propagating, "verify --any", func(ctx context.Context) error {
		out, err := c.run(ctx, c.tools.plugin, "verify", "--any", "-n", namespace, "-o", "jsonpath={range .ports[*]}{.secretState} {.trust}{\"\\n\"}{end}")
		if err != nil {
			return err
		}
		ports := strings.Split(strings.TrimSpace(out), "\n")
		if i := slices.IndexFunc(ports, func(port string) bool { return port != "current secret" }); i >= 0 {
			return fmt.Errorf("port %d of %d: %q", i+1, len(ports), ports[i])
		}
		return nil
	})
}

// wasWoken fails the test unless the kubelet of each pod was woken for the leaf: it is served two seconds later, instead of up
// to 92. Scene reload measures that time.
func (c *cluster) wasWoken(t *testing.T, s server, leaf string) {
	t.Helper()
	pods, err := c.podsOf(t.Context(), s)
	require.NoError(t, err)
	for i := range pods {
		assert.Contains(t, pods[i].Annotations[api.AnnotationLeaf], leaf, "pod %s", pods[i].Name)
	}
}

// rollouts returns how many rollouts the server's Deployment has had.
func (c *cluster) rollouts(t *testing.T, s server) int {
	t.Helper()
	d := &appsv1.Deployment{}
	require.NoError(t, c.admin.Get(t.Context(), client.ObjectKey{Namespace: s.namespace, Name: s.service}, d))
	n, err := strconv.Atoi(d.Annotations["deployment.kubernetes.io/revision"])
	require.NoError(t, err)
	return n
}

// servesAtEachPod returns nil if each pod serves the leaf, as last seen by the attentive client.
func (c *cluster) servesAtEachPod(ctx context.Context, s server, want foreign) error {
	report, err := c.report(ctx, attentive)
	if err != nil {
		return err
	}
	targets, err := c.targets(ctx, s)
	var errs []error
	for _, target := range targets {
		target.Roots = string(want.ca)
		if account, _ := report.Of(target); account.Latest().Leaf != want.leaf {
			errs = append(errs, fmt.Errorf("%s serves leaf %s; want %s", target.Address, account.Latest().Leaf, want.leaf))
		}
	}
	return errors.Join(append(errs, err)...)
}

// issuesByScript makes the server's Secret, or replaces its certificate.
func (c *cluster) issuesByScript(t *testing.T, s server) {
	t.Helper()
	_, err := c.run(t.Context(), "bash", "manifests/"+s.service+".sh", filepath.Join(*outDir, s.service), c.tools.kubectl, s.namespace, s.secret, s.name())
	require.NoError(t, err)
}

// foreign is the content of a Secret that another issuer writes.
type foreign struct {
	leaf    string
	key, ca []byte
	labels  map[string]string
}

func (c *cluster) foreign(ctx context.Context, s server) (foreign, error) {
	secret := &corev1.Secret{}
	if err := c.admin.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: s.secret}, secret); err != nil {
		return foreign{}, err
	}
	chain, err := pki.ParseCertificates(pki.CertificateBlocks(secret.Data[corev1.TLSCertKey]))
	if err != nil {
		return foreign{}, err
	}
	if _, ours := secret.Labels[api.LabelManagedBy]; ours {
		return foreign{}, fmt.Errorf("Secret %s/%s was taken over: %v", s.namespace, s.secret, secret.Labels)
	}
	return foreign{leaf: pki.Fingerprint(chain[0]), key: secret.Data[corev1.TLSPrivateKeyKey], ca: secret.Data[api.BundleKey], labels: secret.Labels}, nil
}

// servesForeign fails the test unless the server serves the certificate in its Secret, and a client
// that trusts the Secret's ca.crt accepts it. It returns how long that took.
func (c *cluster) servesForeign(t *testing.T, s server) time.Duration {
	t.Helper()
	start := time.Now()
	eventually(t, propagating, "fetch "+s.url("/"), func(ctx context.Context) error {
		want, err := c.foreign(ctx, s)
		if err != nil {
			return err
		}
		got, err := c.fetchTrusting(ctx, s, "/", want.ca)
		if err == nil && got != want.leaf {
			err = fmt.Errorf("the server serves leaf %s; want %s", got, want.leaf)
		}
		return err
	})
	return time.Since(start)
}

// mountsForeign fails the test unless the webhook mounted the Secret's three files, with the issuer's
// ca.crt instead of the bundle, and added the flags.
func (c *cluster) mountsForeign(t *testing.T, s server) {
	t.Helper()
	pods, err := c.podsOf(t.Context(), s)
	require.NoError(t, err)
	for i := range pods {
		assert.Subset(t, pods[i].Spec.Containers[0].Args, twoFlags)
		var secrets, others []string
		for _, v := range pods[i].Spec.Volumes {
			if v.Projected == nil || len(v.Projected.Sources) == 0 || v.Projected.Sources[0].Secret == nil {
				continue
			}
			for _, source := range v.Projected.Sources {
				if source.Secret == nil {
					others = append(others, v.Name)
					continue
				}
				for _, item := range source.Secret.Items {
					secrets = append(secrets, source.Secret.Name+" "+item.Path)
				}
			}
		}
		slices.Sort(secrets)
		assert.Equal(t, []string{s.secret + " ca.crt", s.secret + " tls.crt", s.secret + " tls.key"}, secrets)
		assert.Empty(t, others)
	}
}

// givesNothingAway fails the test unless a Service that asks for the Secret is rejected, the command
// status reports that, and the Secret does not change.
func (c *cluster) givesNothingAway(t *testing.T, s server) {
	t.Helper()
	was, err := c.foreign(t.Context(), s)
	require.NoError(t, err)
	contested := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "contested", Annotations: map[string]string{api.AnnotationSecretName: s.secret}},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "https", Port: 443}}},
	}
	require.NoError(t, c.admin.Create(t.Context(), contested))
	eventually(t, settling, "the Service is refused", func(ctx context.Context) error {
		return c.hasCondition(ctx, s.namespace, contested.Name, api.ConditionReady, "False", "SecretConflict")
	})
	said, err := c.run(t.Context(), c.tools.plugin, "status", "-n", s.namespace, contested.Name)
	require.NoError(t, err)
	assert.Contains(t, said, `Secret "web-cm" exists and is not managed by this signer`)
	require.NoError(t, c.admin.Delete(t.Context(), contested)) // the renewal of all certificates would wait for it
	now, err := c.foreign(t.Context(), s)
	require.NoError(t, err)
	assert.Equal(t, was, now)
}

// renewForeign requests a renewal with a condition of the Certificate, as cmctl renew does.
func (c *cluster) renewForeign(t *testing.T, namespace, name string) {
	t.Helper()
	certificate := &unstructured.Unstructured{}
	certificate.SetAPIVersion("cert-manager.io/v1")
	certificate.SetKind("Certificate")
	eventually(t, settling, "request a renewal", func(ctx context.Context) error {
		if err := c.admin.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, certificate); err != nil {
			return err
		}
		conditions, _, err := unstructured.NestedSlice(certificate.Object, "status", "conditions")
		if err != nil {
			return err
		}
		conditions = append(conditions, map[string]any{
			"type": "Issuing", "status": "True", "reason": "ManuallyTriggered", "message": "requested by the scene",
			"lastTransitionTime": time.Now().UTC().Format(time.RFC3339),
		})
		if err := unstructured.SetNestedSlice(certificate.Object, conditions, "status", "conditions"); err != nil {
			return err
		}
		return c.admin.Status().Update(ctx, certificate)
	})
}
