//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
)

// metricsPort is the port of all three processes.
const metricsPort = "8443"

// startScraping creates the ServiceAccount that reads metrics, and waits until the processes, which start
// without a certificate, serve them.
func (c *cluster) startScraping(t *testing.T) {
	t.Helper()
	c.apply(t, "scraper.yaml")
	lifetime := int64(6 * time.Hour / time.Second)
	token, err := c.clients.CoreV1().ServiceAccounts(api.DefaultNamespace).CreateToken(t.Context(), "e2e-scraper", &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &lifetime},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	c.scraper = token.Status.Token
	for _, process := range []string{"signer", "trust", "rotator", "webhook"} {
		eventually(t, propagating, "the metrics of the "+process, func(ctx context.Context) error {
			_, err := c.scrape(ctx, process, "go_goroutines")
			return err
		})
	}
}

// scrape returns a metric of all replicas of a process of servingcert.
func (c *cluster) scrape(ctx context.Context, process, name string) ([]*dto.Metric, error) {
	pods, err := c.pods(ctx, api.DefaultNamespace, map[string]string{"app.kubernetes.io/name": process})
	if err != nil {
		return nil, err
	}
	bundle := &corev1.ConfigMap{}
	if err := c.admin.Get(ctx, client.ObjectKey{Namespace: api.DefaultNamespace, Name: api.BundleName}, bundle); err != nil {
		return nil, err
	}
	config := &tls.Config{RootCAs: x509.NewCertPool(), ServerName: "servingcert-" + process + "." + api.DefaultNamespace + ".svc"}
	config.RootCAs.AppendCertsFromPEM([]byte(bundle.Data["ca.crt"]))
	var all []*dto.Metric
	for i := range pods {
		families, err := c.scrapePod(ctx, pods[i].Name, config)
		if err != nil {
			return nil, fmt.Errorf("metrics of pod %s: %w", pods[i].Name, err)
		}
		all = append(all, families[name].GetMetric()...)
	}
	return all, nil
}

// scrapePod reads the metrics of a pod through a port of this machine, as the API server's proxy does not
// forward tokens.
func (c *cluster) scrapePod(ctx context.Context, pod string, config *tls.Config) (map[string]*dto.MetricFamily, error) {
	ctx, cancel := context.WithTimeout(ctx, settling)
	defer cancel() // also ends the port forwarding
	address, err := c.forward(ctx, pod)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+"/metrics", http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+c.scraper)
	response, err := (&http.Transport{TLSClientConfig: config, DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, errors.New(response.Status)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(response.Body)
}

var forwarded = regexp.MustCompile(`^Forwarding from (127\.0\.0\.1:[0-9]+) `)

// forward forwards a HOST:PORT of this machine to the metrics of a pod of servingcert until ctx ends.
func (c *cluster) forward(ctx context.Context, pod string) (string, error) {
	cmd := exec.CommandContext(ctx, c.tools.kubectl, "--namespace="+api.DefaultNamespace, "port-forward", "--address=127.0.0.1", "pod/"+pod, ":"+metricsPort)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.kubeconfig)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	lines := bufio.NewScanner(out)
	lines.Scan()
	go func() {
		for lines.Scan() { // the output must be read
		}
		_ = cmd.Wait() // killed
	}()
	said := forwarded.FindStringSubmatch(lines.Text())
	if said == nil {
		return "", fmt.Errorf("kubectl port-forward printed %q", lines.Text())
	}
	return said[1], nil
}

// metric returns the sum of a counter or gauge over all replicas and all series with the labels.
func (c *cluster) metric(ctx context.Context, process, name string, labels map[string]string) (float64, error) {
	metrics, err := c.scrape(ctx, process, name)
	if err != nil {
		return 0, err
	}
	var sum float64
	for _, m := range metrics {
		if has(m, labels) {
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return sum, nil
}

func has(m *dto.Metric, labels map[string]string) bool {
	found := 0
	for _, pair := range m.GetLabel() {
		if labels[pair.GetName()] == pair.GetValue() {
			found++
		}
	}
	return found == len(labels)
}
