//go:build alerts

package alerts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// server is a Prometheus of Debian's, as docs/monitoring.md sets one up: it has a token that may read metrics, and
// verifies the processes by the bundle.
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
	s.write(t, "token", []byte(readerToken(t)))
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
		_, err := s.get(t.Context(), "/-/ready", nil)
		return err
	})
	return s
}

// config is the scrape configuration of docs/operations.md, with files in place of kubernetes_sd_configs and a second
// in place of a minute.
func (s *server) config(t *testing.T) []byte {
	t.Helper()
	var jobs []map[string]any
	for _, name := range []string{"signer", "rotator", "webhook"} {
		jobs = append(jobs, map[string]any{
			"job_name": "servingcert-" + name, "scheme": "https", "honor_labels": true,
			"authorization":   map[string]any{"credentials_file": filepath.Join(s.dir, "token")},
			"tls_config":      map[string]any{"server_name": "servingcert-" + name + "." + api.DefaultNamespace + ".svc", "ca_file": filepath.Join(s.dir, "ca.crt")},
			"file_sd_configs": []any{map[string]any{"files": []string{filepath.Join(s.dir, name+"-*.json")}, "refresh_interval": "1s"}},
		})
	}
	data, err := yaml.Marshal(map[string]any{
		"global":     map[string]any{"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
		"rule_files": []string{filepath.Join(s.dir, "rules.yaml")}, "scrape_configs": jobs,
	})
	require.NoError(t, err)
	return data
}

// impatient returns the rules without `for`, and with rates over 20 s: all that is different from what operators
// install. promtool tests those times (deploy/alerts_test.yaml).
func impatient(t *testing.T) []byte {
	t.Helper()
	data, err := os.ReadFile("../../../deploy/alerts.yaml")
	require.NoError(t, err)
	data = regexp.MustCompile(`(?m)^ +for: .*\n`).ReplaceAll(data, nil)
	data = regexp.MustCompile(`\[(5|30)m\]`).ReplaceAll(data, []byte("[20s]"))
	var object struct{ Spec map[string]any }
	require.NoError(t, yaml.Unmarshal(data, &object))
	rules, err := yaml.Marshal(object.Spec)
	require.NoError(t, err)
	return rules
}

func (s *server) write(t *testing.T, name string, data []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, name), data, 0o600))
}

// scrapes has the process scraped from now on, as one of cluster "east".
func (s *server) scrapes(t *testing.T, p *process) {
	t.Helper()
	data, err := json.Marshal([]map[string]any{{"targets": []string{p.metrics}, "labels": map[string]string{"cluster": "east"}}})
	require.NoError(t, err)
	s.write(t, p.name+"-"+strings.ReplaceAll(p.metrics, ":", "-")+".json", data)
}

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

// get returns what is under data in the answer of Prometheus' HTTP API.
func (s *server) get(ctx context.Context, path string, query url.Values) (json.RawMessage, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.address+path+"?"+query.Encode(), http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if path == "/-/ready" && resp.StatusCode == http.StatusOK {
		return nil, nil
	}
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return nil, fmt.Errorf("%s: %s: %w", path, resp.Status, err)
	}
	if answer.Status != "success" {
		return nil, fmt.Errorf("%s %v: %s", path, query, answer.Error)
	}
	return answer.Data, nil
}

// firing returns the labels of the alerts that fire.
func (s *server) firing(ctx context.Context) ([]map[string]string, error) {
	data, err := s.get(ctx, "/api/v1/alerts", nil)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Alerts []struct {
			Labels map[string]string
			State  string
		}
	}
	err = json.Unmarshal(data, &answer)
	var firing []map[string]string
	for _, a := range answer.Alerts {
		if a.State == "firing" {
			firing = append(firing, a.Labels)
		}
	}
	return firing, err
}

// fires returns an error unless the alert fires with these labels, and of this cluster.
func (s *server) fires(ctx context.Context, alert string, labels map[string]string) error {
	all, err := s.firing(ctx)
	if err != nil {
		return err
	}
	is := func(got map[string]string) bool {
		for k, v := range labels {
			if got[k] != v {
				return false
			}
		}
		return got["alertname"] == alert && got["cluster"] == "east"
	}
	if !slices.ContainsFunc(all, is) {
		return fmt.Errorf("%s %v does not fire; these do: %v", alert, labels, all)
	}
	return nil
}

// fired returns an error unless the alert has fired since Prometheus started.
func (s *server) fired(ctx context.Context, alert string) error {
	query := fmt.Sprintf(`last_over_time(ALERTS{alertname=%q, alertstate="firing", cluster="east"}[1h])`, alert)
	data, err := s.get(ctx, "/api/v1/query", url.Values{"query": {query}})
	if err == nil && !strings.Contains(string(data), alert) {
		err = fmt.Errorf("%s did not fire", alert)
	}
	return err
}

// seen returns an error unless so many processes are scraped.
func (s *server) seen(ctx context.Context, n int) error {
	data, err := s.get(ctx, "/api/v1/query", url.Values{"query": {"count(servingcert_build_info)"}})
	if err != nil {
		return err
	}
	if want := fmt.Sprintf(`"%d"`, n); !strings.Contains(string(data), want) {
		return fmt.Errorf("%s, want %d processes", data, n)
	}
	return nil
}
