//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/deploy"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/promtest"
)

const (
	prometheusNamespace = "e2e-prometheus"
	operated            = "operated" // the Prometheus with deploy/podmonitors.yaml
	plain               = "plain"    // the Prometheus with the configuration in docs/operations.md

	// Further jobs of the second, which must fail.
	withoutToken = "without-token-"
	byClusterCA  = "by-cluster-ca-"
)

// prometheus returns the HTTP API of one of the two servers.
func (c *cluster) prometheus(name string) promtest.API {
	return func(ctx context.Context, path string, query url.Values) ([]byte, error) {
		pod, err := c.prometheusPod(ctx, name)
		if err != nil {
			return nil, err
		}
		get := c.proxy(c.clients.CoreV1().RESTClient().Get(), prometheusNamespace, pod.Name, 9090, path)
		for key, values := range query {
			for _, value := range values {
				get.Param(key, value)
			}
		}
		return get.DoRaw(ctx)
	}
}

func (c *cluster) prometheusPod(ctx context.Context, name string) (*corev1.Pod, error) {
	pods, err := c.pods(ctx, prometheusNamespace, map[string]string{"app": name})
	if err == nil && len(pods) != 1 {
		err = fmt.Errorf("Prometheus %s has %d pods, want 1", name, len(pods))
	}
	if err != nil {
		return nil, err
	}
	return &pods[0], nil
}

// startPrometheus starts both servers.
func (c *cluster) startPrometheus(t *testing.T) {
	t.Helper()
	token := c.readerToken(t)
	jobs, err := promtest.OfPodMonitors(token)
	require.NoError(t, err)
	jobs = append(jobs, ofStaticPod(token))
	config, err := promtest.Config("2s", jobs, "/etc/prometheus/config/rules.yaml")
	require.NoError(t, err)
	alerts, err := os.ReadFile("../../deploy/alerts.yaml")
	require.NoError(t, err)
	rules, err := promtest.Impatient(alerts)
	require.NoError(t, err)
	c.applySecret(t, operated, map[string]any{"prometheus.yaml": string(config), "rules.yaml": string(rules)})
	c.applySecret(t, plain, map[string]any{"prometheus.yaml": string(plainConfig(t))})
	c.apply(t, "prometheusservers.yaml")
	eventually(t, starting, "Prometheus", func(ctx context.Context) error { return c.rolledOut(ctx, prometheusNamespace, "") })
}

// staticPod is the job that scrapes the static pod of scene static.
const staticPod = "kube-scheduler"

// ofStaticPod is the job in docs/hosts.md: the name of the Service, the bundle, and a token. The scenes'
// Prometheus is built without the page's DNS discovery.
func ofStaticPod(token string) promtest.Job {
	const name = "scheduler.e2e-static.svc"
	return promtest.Job{
		"job_name": staticPod, "scheme": "https",
		"authorization":  map[string]any{"credentials": token},
		"tls_config":     map[string]any{"ca_file": "/etc/prometheus/certs/1_servingcert-system_servingcert-ca.crt_ca.crt", "server_name": name},
		"static_configs": []any{map[string]any{"targets": []string{name + ".cluster.local:443"}}},
	}
}

// scrapesStaticPod returns nil if Prometheus has scraped the static pod, or if its scene is left out.
func (c *cluster) scrapesStaticPod(ctx context.Context) error {
	err := c.admin.Get(ctx, client.ObjectKey{Namespace: "e2e-static", Name: "scheduler"}, &corev1.Service{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	targets, errOfTargets := c.prometheus(operated).Targets(ctx)
	if err := errors.Join(err, errOfTargets); err != nil {
		return err
	}
	for _, target := range targets {
		if target.ScrapePool == staticPod {
			if target.Health != "up" {
				return fmt.Errorf("%s is %s: %s", target.ScrapeURL, target.Health, target.LastError)
			}
			return nil
		}
	}
	return errors.New("Prometheus has no target " + staticPod)
}

// plainConfig is the configuration in docs/operations.md, with jobs that must fail: without a token, and with the CA of
// the cluster in place of the bundle.
func plainConfig(t *testing.T) []byte {
	t.Helper()
	jobs := documentedJobs(t)
	for _, job := range documentedJobs(t) {
		delete(job, "authorization")
		job["job_name"] = withoutToken + job["job_name"].(string)
		jobs = append(jobs, job)
	}
	for _, job := range documentedJobs(t) {
		job["tls_config"].(map[string]any)["ca_file"] = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"
		job["job_name"] = byClusterCA + job["job_name"].(string)
		jobs = append(jobs, job)
	}
	config, err := promtest.Config("2s", jobs)
	require.NoError(t, err)
	return config
}

func documentedJobs(t *testing.T) []promtest.Job {
	t.Helper()
	page, err := os.ReadFile("../../docs/operations.md")
	require.NoError(t, err)
	jobs, err := promtest.OfDocs(page)
	require.NoError(t, err)
	return jobs
}

// readerToken creates the ServiceAccount of deploy/podmonitors.yaml and returns its token. The kind of the PodMonitors
// does not exist without the operator.
func (c *cluster) readerToken(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("../../deploy/podmonitors.yaml")
	require.NoError(t, err)
	objects, err := deploy.Decode(data)
	require.NoError(t, err)
	for _, obj := range objects {
		if obj.GetKind() != "PodMonitor" {
			require.NoError(t, c.admin.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(obj), client.FieldOwner(owner)))
		}
	}
	secret := &corev1.Secret{}
	eventually(t, settling, "the token", func(ctx context.Context) error {
		err := c.admin.Get(ctx, client.ObjectKey{Namespace: api.DefaultNamespace, Name: "servingcert-metrics-reader"}, secret)
		if err == nil && len(secret.Data[corev1.ServiceAccountTokenKey]) == 0 {
			err = errors.New("the Secret has no token")
		}
		return err
	})
	return string(secret.Data[corev1.ServiceAccountTokenKey])
}

func (c *cluster) applySecret(t *testing.T, name string, data map[string]any) {
	t.Helper()
	secret := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "stringData": data,
		"metadata": map[string]any{"namespace": prometheusNamespace, "name": name},
	}}
	require.NoError(t, c.admin.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(secret), client.FieldOwner(owner)))
}

// rightCommands matches the commands in docs/operations.md that grant permissions to Prometheus.
var rightCommands = regexp.MustCompile(`(?m)^\$ (kubectl .*create (\S+) prometheus-servingcert (?:.*\\\n)*.*)$`)

// grants runs the commands in docs/operations.md that create objects of these kinds, for the scene's Prometheus.
func (c *cluster) grants(t *testing.T, kinds ...string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/operations.md")
	require.NoError(t, err)
	commands := map[string]string{}
	for _, m := range rightCommands.FindAllStringSubmatch(string(page), -1) {
		commands[m[2]] = m[1]
	}
	for _, kind := range kinds {
		require.Contains(t, commands, kind, "docs/operations.md has no command that creates it")
		command := strings.NewReplacer("\\\n", "", "monitoring:prometheus", prometheusNamespace+":prometheus", "prometheus-servingcert", prometheusNamespace).Replace(commands[kind])
		out, err := c.run(t.Context(), c.tools.kubectl, append(strings.Fields(command)[1:], "--dry-run=client", "-o=yaml")...)
		require.NoError(t, err)
		objects, err := deploy.Decode([]byte(out))
		require.NoError(t, err)
		require.Len(t, objects, 1)
		require.NoError(t, c.admin.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(objects[0]), client.FieldOwner(owner)))
	}
}
