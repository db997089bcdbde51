// Package promtest is for tests with a real Prometheus. It has scrape configurations, from the Prometheus operator for
// deploy/podmonitors.yaml and from the documentation, rules that do not wait, the queries of the dashboards, and a
// client for the HTTP API.
package promtest

import (
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"
)

// Processes are the scraped processes.
var Processes = []string{"signer", "trust", "rotator", "webhook"}

// CAFile is the path of the CA bundle in the scrape configuration of the PodMonitors: the operator copies the ConfigMap
// that they name.
const CAFile = "/etc/prometheus/certs/1_servingcert-system_servingcert-ca.crt_ca.crt"

//go:embed podmonitors.yaml
var podMonitors string

// Job is an element of scrape_configs.
type Job map[string]any

// OfPodMonitors returns the operator's configuration for deploy/podmonitors.yaml, with the token for their Secret.
func OfPodMonitors(token string) ([]Job, error) {
	// In a cluster, the operator replaces the first, and the reloader beside Prometheus the second.
	jobs, err := scrapeConfigs(strings.NewReplacer("credentials: TOKEN\n", fmt.Sprintf("credentials: %q\n", token), "$(SHARD)", "0").Replace(podMonitors))
	if err == nil && len(jobs) != len(Processes) {
		err = fmt.Errorf("%d jobs of the PodMonitors, want %d", len(jobs), len(Processes))
	}
	return jobs, err
}

var documented = regexp.MustCompile("(?s)```yaml\n(scrape_configs:\n.*?)```")

// OfDocs returns the scrape configuration in docs/operations.md, for a Prometheus without the operator. The page shows it
// for the signer, and states that it is the same for the other processes.
func OfDocs(page []byte) ([]Job, error) {
	block := documented.FindSubmatch(page)
	if block == nil {
		return nil, errors.New("the page has no scrape_configs")
	}
	var all []Job
	for _, process := range Processes {
		jobs, err := scrapeConfigs(strings.ReplaceAll(string(block[1]), "signer", process))
		if err != nil {
			return nil, err
		}
		all = append(all, jobs...)
	}
	return all, nil
}

func scrapeConfigs(data string) ([]Job, error) {
	var config struct {
		ScrapeConfigs []Job `json:"scrape_configs"`
	}
	err := yaml.UnmarshalStrict([]byte(data), &config)
	return config.ScrapeConfigs, err
}

// Config returns the configuration of a Prometheus with this interval of scrapes and evaluations, such as "2s".
func Config(interval string, jobs []Job, ruleFiles ...string) ([]byte, error) {
	return yaml.Marshal(map[string]any{
		"global":         map[string]any{"scrape_interval": interval, "scrape_timeout": interval, "evaluation_interval": interval},
		"rule_files":     ruleFiles,
		"scrape_configs": jobs,
	})
}
