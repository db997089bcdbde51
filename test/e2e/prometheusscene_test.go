//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/promtest"
)

// prometheusScene: a real Prometheus in a pod monitors servingcert.
func prometheusScene() *scene {
	s := &scene{name: "prometheus", about: "a real Prometheus: every replica scraped, alerts, dashboards", manifest: "prometheus.yaml"}
	var begun time.Time
	scraped := func(t *testing.T, c *cluster) {
		eventually(t, settling, "every replica is scraped", func(ctx context.Context) error { return c.scrapesAll(ctx, operated, "podMonitor/") })
		eventually(t, starting, "the static pod is scraped", c.scrapesStaticPod)
	}
	s.up = func(t *testing.T, c *cluster) {
		begun = time.Now()
		c.startPrometheus(t)
		c.isRefused(t)
		scraped(t, c)
		c.knowsAll(t)
	}
	s.renewed = func(t *testing.T, c *cluster, _ before) { scraped(t, c) }
	s.succeeded = scraped
	s.rebooted = scraped
	s.alone = func(t *testing.T, c *cluster) {
		scraped(t, c)
		s.note("the replacement of a deleted signer is scraped after " + seconds(c.findsAnother(t)))
		fired, resolved := c.alertsOfSilence(t)
		s.note(fmt.Sprintf("ServingcertSilent fires %s after the signer is scaled to 0, and ends %s after it is scaled back", seconds(fired), seconds(resolved)))
		mended := c.breaksForPanels(t)
		s.note(c.showsPanels(t, begun))
		mended()
		c.neverDistrusted(t)
	}
	return s
}

// isRefused fails the test unless a Prometheus with the configuration in docs/operations.md scrapes the processes with
// the permissions on that page, and fails with fewer. It is removed afterwards.
func (c *cluster) isRefused(t *testing.T) {
	t.Helper()
	eventually(t, settling, "without permission to list pods", func(ctx context.Context) error {
		pod, err := c.prometheusPod(ctx, plain)
		if err != nil {
			return err
		}
		log, err := c.log(ctx, pod, false)
		if err == nil && !strings.Contains(string(log), "pods is forbidden") {
			err = errors.New("its log does not contain \"pods is forbidden\"")
		}
		return err
	})
	c.grants(t, "role", "rolebinding")
	refused := func(job, why string) {
		eventually(t, settling, job+" is refused", func(ctx context.Context) error { return c.scrapesNone(ctx, job, why) })
	}
	refused("servingcert-", "HTTP status 403")
	c.grants(t, "clusterrolebinding")
	eventually(t, settling, "as documented", func(ctx context.Context) error { return c.scrapesAll(ctx, plain, "servingcert-") })
	refused(withoutToken, "HTTP status 401")
	refused(byClusterCA, "x509: certificate signed by unknown authority")
	require.NoError(t, c.admin.Delete(t.Context(), &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: prometheusNamespace, Name: plain}}))
}

// scrapeTargets returns the targets of jobs with this prefix, by the address of the pod. It returns an error unless these
// are exactly the pods of servingcert, over HTTPS.
func (c *cluster) scrapeTargets(ctx context.Context, server, jobs string) (map[string]promtest.Target, error) {
	targets, err := c.prometheus(server).Targets(ctx)
	if err != nil {
		return nil, err
	}
	found := map[string]promtest.Target{}
	for _, target := range targets {
		if strings.HasPrefix(target.ScrapePool, jobs) {
			found[target.ScrapeURL] = target
		}
	}
	var want []string
	for _, process := range promtest.Processes {
		pods, err := c.pods(ctx, api.DefaultNamespace, map[string]string{"app.kubernetes.io/name": process})
		if err != nil {
			return nil, err
		}
		if len(pods) != 2 {
			return nil, fmt.Errorf("%d pods of the %s, want 2", len(pods), process)
		}
		for i := range pods {
			want = append(want, "https://"+pods[i].Status.PodIP+":"+metricsPort+"/metrics")
		}
	}
	slices.Sort(want)
	if got := slices.Sorted(maps.Keys(found)); !slices.Equal(got, want) {
		return nil, fmt.Errorf("Prometheus %s scrapes %v; want %v", server, got, want)
	}
	return found, nil
}

// scrapesAll returns nil if the jobs scrape all pods of servingcert, and the last scrape of each succeeded.
func (c *cluster) scrapesAll(ctx context.Context, server, jobs string) error {
	targets, err := c.scrapeTargets(ctx, server, jobs)
	errs := []error{err}
	for _, target := range targets {
		if target.Health != "up" {
			errs = append(errs, fmt.Errorf("%s is %s: %s", target.ScrapeURL, target.Health, target.LastError))
		}
	}
	return errors.Join(errs...)
}

// scrapesNone returns nil if all scrapes of the jobs of the documented Prometheus fail with this error.
func (c *cluster) scrapesNone(ctx context.Context, jobs, why string) error {
	targets, err := c.scrapeTargets(ctx, plain, jobs)
	errs := []error{err}
	for _, target := range targets {
		if target.Health != "down" || !strings.Contains(target.LastError, why) {
			errs = append(errs, fmt.Errorf("%s is %s: %q; want %q", target.ScrapeURL, target.Health, target.LastError, why))
		}
	}
	return errors.Join(errs...)
}

// knowsAll fails the test unless each replica reports its process and build, and the namespace of a metric is that of
// the certificate.
func (c *cluster) knowsAll(t *testing.T) {
	t.Helper()
	infos, err := c.prometheus(operated).Query(t.Context(), "servingcert_build_info")
	require.NoError(t, err)
	builds, replicas := map[string]bool{}, map[string]int{}
	for _, info := range infos {
		process := info.Labels["process"]
		assert.True(t, strings.HasPrefix(info.Labels["pod"], "servingcert-"+process+"-"), "%v", info.Labels)
		builds[info.Labels["version"]+" "+info.Labels["revision"]] = true
		replicas[process]++
	}
	assert.Equal(t, map[string]int{"signer": 2, "trust": 2, "rotator": 2, "webhook": 2}, replicas)
	assert.Len(t, builds, 1, "all have the same build")
	eventually(t, settling, "the metric of a certificate", func(ctx context.Context) error {
		series, err := c.prometheus(operated).Query(ctx, `servingcert_certificate_not_after_timestamp_seconds{secret="asks-tls"}`)
		if err != nil {
			return err
		}
		want := map[string]string{"namespace": prometheusNamespace, "job": api.DefaultNamespace + "/servingcert-signer"}
		if len(series) != replicas["signer"] || slices.ContainsFunc(series, func(s promtest.Series) bool { return !promtest.Has(s.Labels, want) }) {
			return fmt.Errorf("%v; want one of each signer, with labels %v", series, want)
		}
		return nil
	})
}

// findsAnother deletes a signer and returns how long it takes until its replacement is scraped.
func (c *cluster) findsAnother(t *testing.T) time.Duration {
	t.Helper()
	pods, err := c.pods(t.Context(), api.DefaultNamespace, map[string]string{"app.kubernetes.io/name": "signer"})
	require.NoError(t, err)
	require.NotEmpty(t, pods)
	gone := pods[0]
	begun := time.Now()
	_, err = c.run(t.Context(), c.tools.kubectl, "-n", gone.Namespace, "delete", "pod", gone.Name, "--wait=false")
	require.NoError(t, err)
	eventually(t, starting, "the replacement of signer "+gone.Name, func(ctx context.Context) error {
		targets, err := c.scrapeTargets(ctx, operated, "podMonitor/")
		if err != nil {
			return err
		}
		for _, target := range targets {
			if target.Labels["pod"] == gone.Name {
				return fmt.Errorf("%s is scraped", gone.Name)
			}
		}
		return c.scrapesAll(ctx, operated, "podMonitor/")
	})
	return time.Since(begun)
}

// alertsOfSilence stops all signers and starts them again. It returns how long it takes until the alert fires, and until
// it ends.
func (c *cluster) alertsOfSilence(t *testing.T) (fired, resolved time.Duration) {
	t.Helper()
	fires := func(ctx context.Context, wanted bool) error {
		firing, err := c.prometheus(operated).Firing(ctx)
		if err != nil {
			return err
		}
		is := slices.ContainsFunc(firing, func(labels map[string]string) bool {
			return promtest.Has(labels, map[string]string{"alertname": "ServingcertSilent", "process": "signer"})
		})
		if is != wanted {
			err = fmt.Errorf("ServingcertSilent for the signer fires: %t; all firing alerts: %v", is, firing)
		}
		return err
	}
	require.NoError(t, fires(t.Context(), false))
	signer := client.ObjectKey{Namespace: api.DefaultNamespace, Name: "servingcert-signer"}
	replicas := c.scale(t, signer, 0)
	begun := time.Now()
	eventually(t, settling, "the alert", func(ctx context.Context) error { return fires(ctx, true) })
	fired = time.Since(begun)
	c.scale(t, signer, replicas)
	begun = time.Now()
	eventually(t, starting, "the end of the alert", func(ctx context.Context) error { return fires(ctx, false) })
	resolved = time.Since(begun)
	eventually(t, starting, "the signer", func(ctx context.Context) error {
		return errors.Join(c.rolledOut(ctx, api.DefaultNamespace, "servingcert-signer"), c.scrapesAll(ctx, operated, "podMonitor/"))
	})
	return fired, resolved
}

// neverDistrusted fails the test if a scrape by the PodMonitors ever failed because of a certificate.
func (c *cluster) neverDistrusted(t *testing.T) {
	t.Helper()
	pod, err := c.prometheusPod(t.Context(), operated)
	require.NoError(t, err)
	require.Zero(t, pod.Status.ContainerStatuses[0].RestartCount, "its log is incomplete")
	log, err := c.log(t.Context(), pod, false)
	require.NoError(t, err)
	for line := range strings.Lines(string(log)) {
		assert.NotContains(t, line, "x509:")
	}
}
