//go:build alerts

package alerts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/integration/harness"
	"github.com/servingcert/servingcert/test/promtest"
)

// server is a Prometheus of Debian's that has deploy/podmonitors.yaml: it has a token that may read metrics, and verifies
// the processes by the bundle.
type server struct {
	dir, address string
	log          harness.Log
}

// startPrometheus returns a server without targets, which evaluates deploy/alerts.yaml every second.
func startPrometheus(t *testing.T) *server {
	t.Helper()
	program, err := exec.LookPath("prometheus")
	require.NoError(t, err, "prometheus is in Debian's package of that name")
	s := &server{dir: t.TempDir()}
	s.address, err = harness.FreeAddress()
	require.NoError(t, err)
	s.write(t, "rules.yaml", impatient(t))
	s.write(t, "ca.crt", nil)
	s.write(t, "prometheus.yaml", s.config(t))
	cmd := exec.Command(program, "--config.file="+filepath.Join(s.dir, "prometheus.yaml"), "--storage.tsdb.path="+filepath.Join(s.dir, "data"), "--web.listen-address="+s.address)
	cmd.Stderr = &s.log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		if err := errors.Join(cmd.Process.Signal(os.Interrupt), cmd.Wait()); err != nil {
			t.Errorf("Prometheus ended with: %v", err)
		}
		if t.Failed() {
			t.Logf("log of Prometheus:\n%s", s.log.String())
		}
	})
	harness.Eventually(t, func() error {
		_, err := s.api()(t.Context(), "/-/ready", nil)
		return err
	})
	return s
}

// config scrapes as the Prometheus operator has it by deploy/podmonitors.yaml, with files in place of the API server and a
// second in place of 30.
func (s *server) config(t *testing.T) []byte {
	t.Helper()
	jobs, err := promtest.OfPodMonitors(readerToken(t))
	require.NoError(t, err)
	for _, job := range jobs {
		require.Equal(t, promtest.CAFile, job["tls_config"].(map[string]any)["ca_file"])
		job["tls_config"].(map[string]any)["ca_file"] = filepath.Join(s.dir, "ca.crt")
		delete(job, "kubernetes_sd_configs")
		job["file_sd_configs"] = []any{map[string]any{"files": []string{filepath.Join(s.dir, "pod-*.json")}, "refresh_interval": "1s"}}
	}
	jobs = append(jobs, promtest.Job{"job_name": "hostsync", "file_sd_configs": []any{map[string]any{"files": []string{filepath.Join(s.dir, "host-*.json")}, "refresh_interval": "1s"}}})
	data, err := promtest.Config("1s", jobs, filepath.Join(s.dir, "rules.yaml"))
	require.NoError(t, err)
	return data
}

// impatient returns the rules without their times.
func impatient(t *testing.T) []byte {
	t.Helper()
	data, err := os.ReadFile("../../../deploy/alerts.yaml")
	require.NoError(t, err)
	rules, err := promtest.Impatient(data)
	require.NoError(t, err)
	return rules
}

func (s *server) write(t *testing.T, name string, data []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, name), data, 0o600))
}

// scrapes has the process scraped from now on, as a pod of its Deployment, and one of cluster "east".
func (s *server) scrapes(t *testing.T, p *process) {
	t.Helper()
	var deployment appsv1.Deployment
	require.NoError(t, admin.Get(t.Context(), inSystem("servingcert-"+p.name), &deployment))
	unique := strings.ReplaceAll(p.metrics, ":", "-")
	found := map[string]string{ // as Prometheus finds it
		"cluster":                     "east",
		"__meta_kubernetes_namespace": api.DefaultNamespace, "__meta_kubernetes_pod_name": deployment.Name + "-" + unique,
		"__meta_kubernetes_pod_phase": string(corev1.PodRunning), "__meta_kubernetes_pod_container_port_name": "metrics",
		"__meta_kubernetes_pod_container_name": deployment.Spec.Template.Spec.Containers[0].Name,
	}
	for name, value := range deployment.Spec.Template.Labels {
		name = notOfLabels.ReplaceAllString(name, "_")
		found["__meta_kubernetes_pod_label_"+name], found["__meta_kubernetes_pod_labelpresent_"+name] = value, "true"
	}
	data, err := json.Marshal([]map[string]any{{"targets": []string{p.metrics}, "labels": found}})
	require.NoError(t, err)
	s.write(t, "pod-"+p.name+"-"+unique+".json", data)
}

// scrapesHost has the hostsync at the address scraped from now on, as docs/hosts.md says.
func (s *server) scrapesHost(t *testing.T, address string) {
	t.Helper()
	data, err := json.Marshal([]map[string]any{{"targets": []string{address}, "labels": map[string]string{"cluster": "east"}}})
	require.NoError(t, err)
	s.write(t, "host-1.json", data)
}

// notOfLabels is what Prometheus replaces in the names of a pod's labels.
var notOfLabels = regexp.MustCompile(`[^a-zA-Z0-9_]`)

// readerToken returns the token of a ServiceAccount that may read metrics.
func readerToken(t *testing.T) string {
	t.Helper()
	require.NoError(t, admin.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "prometheus"}}))
	require.NoError(t, admin.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "prometheus-servingcert"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "servingcert-metrics-reader"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: "prometheus"}},
	}))
	cfg, err := plane.ServiceAccountConfig(t.Context(), "default", "prometheus")
	require.NoError(t, err)
	return cfg.BearerToken
}

// trusts gives Prometheus the bundle that there is now, once the rotator has written what the signer has published.
func (s *server) trusts(t *testing.T) {
	t.Helper()
	harness.Eventually(t, func() error {
		var cm, published corev1.ConfigMap
		err := errors.Join(admin.Get(t.Context(), inSystem(api.BundleName), &cm), admin.Get(t.Context(), inSystem(api.CAStatusName), &published))
		if err == nil && (cm.Data[api.BundleKey] == "" || cm.Data[api.BundleKey] != published.Data[api.BundleKey]) {
			err = errors.New("the bundle is not that of the CA")
		}
		if err == nil {
			s.write(t, "ca.crt", []byte(cm.Data[api.BundleKey]))
		}
		return err
	})
}

// api reads the server's.
func (s *server) api() promtest.API {
	return func(ctx context.Context, path string, query url.Values) ([]byte, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.address+path+"?"+query.Encode(), http.NoBody)
		if err != nil {
			return nil, err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return nil, err
		}
		defer func() { _ = resp.Body.Close() }()
		body, err := io.ReadAll(resp.Body)
		if err == nil && resp.StatusCode == http.StatusServiceUnavailable { // it starts
			err = errors.New(resp.Status)
		}
		return body, err
	}
}

// fires returns an error unless the alert fires with these labels, and of this cluster.
func (s *server) fires(ctx context.Context, alert string, labels map[string]string) error {
	all, err := s.api().Firing(ctx)
	if err != nil {
		return err
	}
	is := func(got map[string]string) bool {
		return promtest.Has(got, labels) && promtest.Has(got, map[string]string{"alertname": alert, "cluster": "east"})
	}
	if !slices.ContainsFunc(all, is) {
		return fmt.Errorf("%s %v does not fire; these do: %v", alert, labels, all)
	}
	return nil
}

// fired returns an error unless the alert has fired since Prometheus started.
func (s *server) fired(ctx context.Context, alert string) error {
	series, err := s.api().Query(ctx, fmt.Sprintf(`last_over_time(ALERTS{alertname=%q, alertstate="firing", cluster="east"}[1h])`, alert))
	if err == nil && len(series) == 0 {
		err = fmt.Errorf("%s did not fire", alert)
	}
	return err
}

// seen returns an error unless so many processes are scraped.
func (s *server) seen(ctx context.Context, n int) error {
	series, err := s.api().Query(ctx, "servingcert_build_info")
	if err == nil && len(series) != n {
		err = fmt.Errorf("%v, want %d processes", series, n)
	}
	return err
}
