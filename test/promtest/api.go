package promtest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"
)

// API reads the HTTP API of a Prometheus: it returns the body of a GET of the path.
type API func(ctx context.Context, path string, query url.Values) ([]byte, error)

// Series is a series of a result, with one point, or for a range with several in the order of time.
type Series struct {
	Labels map[string]string
	Points []Point
}

// Point is a value at a time, in seconds since 1970.
type Point struct{ Time, Value float64 }

// Target is a scraped endpoint.
type Target struct {
	Labels     map[string]string
	ScrapePool string // name of the job in the configuration
	ScrapeURL  string
	Health     string // up, down or unknown
	LastError  string
}

// Get decodes field data of the response.
func (get API) Get(ctx context.Context, path string, query url.Values, data any) error {
	body, err := get(ctx, path, query)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s %v: %s", path, query, answer.Error)
	}
	return json.Unmarshal(answer.Data, data)
}

// Query returns the current result of an expression.
func (get API) Query(ctx context.Context, expr string) ([]Series, error) {
	var answer struct {
		Result []struct {
			Metric map[string]string
			Value  sample
		}
	}
	if err := get.Get(ctx, "/api/v1/query", url.Values{"query": {expr}}, &answer); err != nil {
		return nil, err
	}
	var all []Series
	for _, r := range answer.Result {
		all = append(all, Series{r.Metric, []Point{Point(r.Value)}})
	}
	return all, nil
}

// Range returns the results of an expression every two seconds from start to end. NaN is omitted, so a series may
// have no points.
func (get API) Range(ctx context.Context, expr string, start, end time.Time) ([]Series, error) {
	var answer struct {
		Result []struct {
			Metric map[string]string
			Values []sample
		}
	}
	if err := get.Get(ctx, "/api/v1/query_range", url.Values{
		"query": {expr}, "step": {"2"}, "start": {start.UTC().Format(time.RFC3339)}, "end": {end.UTC().Format(time.RFC3339)},
	}, &answer); err != nil {
		return nil, err
	}
	var all []Series
	for _, r := range answer.Result {
		s := Series{Labels: r.Metric}
		for _, v := range r.Values {
			if v.Value == v.Value { // not NaN
				s.Points = append(s.Points, Point(v))
			}
		}
		all = append(all, s)
	}
	return all, nil
}

// Shows reports whether one of the series has a point.
func Shows(series []Series) bool {
	return slices.ContainsFunc(series, func(s Series) bool { return len(s.Points) > 0 })
}

// sample is a point in the API's JSON: [1435781451.781, "1"].
type sample Point

// UnmarshalJSON implements json.Unmarshaler.
func (s *sample) UnmarshalJSON(data []byte) error {
	var value string
	if err := json.Unmarshal(data, &[]any{&s.Time, &value}); err != nil {
		return err
	}
	var err error
	s.Value, err = strconv.ParseFloat(value, 64)
	return err
}

// Targets returns all scrape targets, whatever their health.
func (get API) Targets(ctx context.Context) ([]Target, error) {
	var answer struct{ ActiveTargets []Target }
	err := get.Get(ctx, "/api/v1/targets", url.Values{"state": {"active"}}, &answer)
	return answer.ActiveTargets, err
}

// Firing returns the labels of the firing alerts.
func (get API) Firing(ctx context.Context) ([]map[string]string, error) {
	var answer struct {
		Alerts []struct {
			Labels map[string]string
			State  string
		}
	}
	err := get.Get(ctx, "/api/v1/alerts", nil, &answer)
	var firing []map[string]string
	for _, a := range answer.Alerts {
		if a.State == "firing" {
			firing = append(firing, a.Labels)
		}
	}
	return firing, err
}

// Has reports whether the labels of a series, a target or an alert include the given ones.
func Has(labels, wanted map[string]string) bool {
	for name, value := range wanted {
		if labels[name] != value {
			return false
		}
	}
	return true
}
