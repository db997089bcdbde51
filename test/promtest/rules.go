package promtest

import (
	"regexp"

	"sigs.k8s.io/yaml"
)

var (
	waits     = regexp.MustCompile(`(?m)^ +for: .*\n`)
	longRates = regexp.MustCompile(`\[(5|30)m\]`)
)

// Impatient returns a file of rule_files with the rules of deploy/alerts.yaml, but without `for`, and with rates over
// 20 s. promtool tests the original times (deploy/alerts_test.yaml).
func Impatient(alerts []byte) ([]byte, error) {
	alerts = waits.ReplaceAll(alerts, nil)
	alerts = longRates.ReplaceAll(alerts, []byte("[20s]"))
	var object struct{ Spec map[string]any }
	if err := yaml.Unmarshal(alerts, &object); err != nil {
		return nil, err
	}
	return yaml.Marshal(object.Spec)
}
