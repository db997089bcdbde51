package process

import (
	"context"
	"io"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Families are metrics by name.
type Families map[string]*dto.MetricFamily

// Scrape reads the metrics at a URL.
func Scrape(ctx context.Context, url string) (Families, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	return ParseMetrics(response.Body)
}

// ParseMetrics reads metrics in Prometheus' text format.
func ParseMetrics(in io.Reader) (Families, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(in)
}

// Gather returns the metrics of a registry.
func Gather(from prometheus.Gatherer) (Families, error) {
	gathered, err := from.Gather()
	m := Families{}
	for _, family := range gathered {
		m[family.GetName()] = family
	}
	return m, err
}

// With returns the series of a metric that have the labels (name, value, …).
func (m Families) With(name string, labels ...string) (out []*dto.Metric) {
	for _, series := range m[name].GetMetric() {
		have := map[string]string{}
		for _, l := range series.GetLabel() {
			have[l.GetName()] = l.GetValue()
		}
		matches := true
		for i := 0; i+1 < len(labels); i += 2 {
			matches = matches && have[labels[i]] == labels[i+1]
		}
		if matches {
			out = append(out, series)
		}
	}
	return out
}

// Sum returns the sum of these series; of a histogram the number of observations.
func (m Families) Sum(name string, labels ...string) (total float64) {
	for _, series := range m.With(name, labels...) {
		total += series.GetCounter().GetValue() + series.GetGauge().GetValue() + float64(series.GetHistogram().GetSampleCount())
	}
	return total
}

// Writes returns the number of a process's write requests to the API server.
func (m Families) Writes() (n float64) {
	for _, method := range []string{http.MethodPost, http.MethodPatch, http.MethodPut, http.MethodDelete} {
		n += m.Sum("rest_client_requests_total", "method", method)
	}
	return n
}
