//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
)

// twoFlags are the flags of most components of Kubernetes.
var twoFlags = []string{"--tls-cert-file=/etc/servingcert/tls.crt", "--tls-private-key-file=/etc/servingcert/tls.key"}

// given describes what the pod's only container got in addition to files and variables.
type given struct {
	parts string // as in the status
	flags []string
	env   map[string]string
	file  string // name of a configuration file
}

// programsScene: programs of the table, each configured in its own way. Only the annotation on the
// Service requests this.
func programsScene() *scene {
	const namespace = "e2e-programs"
	registry := server{namespace: namespace, service: "registry", secret: "registry-tls", port: 5000}
	nats := server{namespace: namespace, service: "nats", secret: "nats-tls", port: 8222}
	exporter := server{namespace: namespace, service: "node-exporter", secret: "node-exporter-tls", port: 9100, reloads: true}
	const ok = `{"status":"ok"}`
	return &scene{
		name: "programs", about: "registry, NATS and node-exporter by the table, probes auto, a Helm test", manifest: "programs.yaml",
		servers: []server{registry, nats, exporter},
		up: func(t *testing.T, c *cluster) {
			c.starts(t, registry, "/v2/", "{}")
			c.wasGiven(t, registry, given{parts: "files,env,variables,probes", env: map[string]string{
				"REGISTRY_HTTP_TLS_CERTIFICATE": "/etc/servingcert/tls.crt", "REGISTRY_HTTP_TLS_KEY": "/etc/servingcert/tls.key",
			}})
			c.starts(t, nats, "/healthz", ok)
			c.wasGiven(t, nats, given{parts: "files,env,flags,probes", flags: []string{
				"--tls", "--tlscert=/etc/servingcert/tls.crt", "--tlskey=/etc/servingcert/tls.key",
			}})
			c.starts(t, exporter, "/", "<html>")
			c.wasGiven(t, exporter, given{parts: "files,env,flags,probes", flags: []string{"--web.config.file=/etc/servingcert/web-config.yml"}, file: "web-config.yml"})
			c.completesUntouched(t, namespace, "node-exporter-test")
		},
		// The runner checks that node-exporter reloads. The others need a restart.
		renewed: func(t *testing.T, c *cluster, before before) {
			c.servesAfterRollout(t, registry, "/v2/", "{}", before)
			c.servesAfterRollout(t, nats, "/healthz", ok, before)
		},
	}
}

// wasGiven fails the test unless the table gave this to the pods of the server, and all their probes use
// HTTPS.
func (c *cluster) wasGiven(t *testing.T, s server, want given) {
	t.Helper()
	pods, err := c.podsOf(t.Context(), s)
	require.NoError(t, err)
	for i := range pods {
		pod := &pods[i]
		container := &pod.Spec.Containers[0]
		status, ok := api.ParseInjectionStatus(pod.Annotations[api.AnnotationStatus])
		require.True(t, ok, "%s: %s", pod.Name, pod.Annotations[api.AnnotationStatus])
		assert.Equal(t, want.parts, status.Containers[container.Name], pod.Name)
		assert.NotContains(t, pod.Annotations[api.AnnotationStatus], "UnaskedFlags", pod.Name)
		assert.Subset(t, container.Args, want.flags, pod.Name)
		for name, value := range want.env {
			assert.Contains(t, container.Env, corev1.EnvVar{Name: name, Value: value}, pod.Name)
		}
		if want.file != "" {
			assert.NotEmpty(t, pod.Annotations[api.AnnotationFilePrefix+want.file], pod.Name)
		}
		for _, probe := range []*corev1.Probe{container.StartupProbe, container.ReadinessProbe, container.LivenessProbe} {
			if probe != nil {
				assert.Equal(t, corev1.URISchemeHTTPS, probe.HTTPGet.Scheme, pod.Name)
			}
		}
	}
}

// completesUntouched fails the test unless a pod of programstest.yaml, which a Service selects, gets
// nothing and completes.
func (c *cluster) completesUntouched(t *testing.T, namespace, name string) {
	t.Helper()
	c.apply(t, "programstest.yaml")
	pod := &corev1.Pod{}
	eventually(t, starting, name, func(ctx context.Context) error {
		err := c.admin.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, pod)
		if err == nil && pod.Status.Phase != corev1.PodSucceeded {
			err = fmt.Errorf("phase %s", pod.Status.Phase)
		}
		return err
	})
	status, _ := api.ParseInjectionStatus(pod.Annotations[api.AnnotationStatus])
	assert.Equal(t, "NotServing", status.Reason)
	assert.NotContains(t, pod.Labels, api.LabelInjected)
	assert.Equal(t, []string{"--version"}, pod.Spec.Containers[0].Args)
	for _, v := range pod.Spec.Volumes {
		assert.True(t, strings.HasPrefix(v.Name, "kube-api-access-"), "volume %s", v.Name)
	}
}

// servesAfterRollout fails the test unless the server, which does not reload, serves the certificate in
// the Secret after a restart of its Deployment.
func (c *cluster) servesAfterRollout(t *testing.T, s server, path, body string, before before) {
	t.Helper()
	now, err := c.processesOf(t.Context(), s)
	require.NoError(t, err)
	require.Equal(t, before[s.name()].processes, now, "processes of %s before the restart", s.name())
	c.rollsOut(t, s)
	c.serves(t, s, path, body)
	eventually(t, verifying, "the rotator sees it", func(ctx context.Context) error {
		return c.hasCondition(ctx, s.namespace, s.service, api.ConditionServing, "True", api.ServingCurrent)
	})
}
