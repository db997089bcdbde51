//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"fmt"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/servingcert/servingcert/pkg/api"
)

// scrape returns a metric of all replicas of one of servingcert's processes.
func (c *cluster) scrape(ctx context.Context, process, name string) ([]*dto.Metric, error) {
	pods, err := c.pods(ctx, api.DefaultNamespace, map[string]string{"app.kubernetes.io/name": process})
	if err != nil {
		return nil, err
	}
	var all []*dto.Metric
	for i := range pods {
		data, err := c.proxy(c.clients.CoreV1().RESTClient().Get(), api.DefaultNamespace, pods[i].Name, 8080, "metrics").DoRaw(ctx)
		if err != nil {
			return nil, fmt.Errorf("metrics of pod %s: %w", pods[i].Name, err)
		}
		parser := expfmt.NewTextParser(model.UTF8Validation)
		families, err := parser.TextToMetricFamilies(bytes.NewReader(data))
		if err != nil {
			return nil, fmt.Errorf("metrics of pod %s: %w", pods[i].Name, err)
		}
		all = append(all, families[name].GetMetric()...)
	}
	return all, nil
}

// metric is the sum of a counter or gauge over all replicas and over the series
// that have the labels.
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
