package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"sigs.k8s.io/yaml"
)

// The operator decodes the ServiceMonitor in docs/gateways.md, which refers to the rotator's ConfigMap
// with the CA bundle.
func TestTheServiceMonitorOfTheDocs(t *testing.T) {
	page, err := os.ReadFile("../../../docs/gateways.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		if !strings.Contains(block[1], "kind: ServiceMonitor") {
			continue
		}
		var monitor monitoringv1.ServiceMonitor
		if err := yaml.UnmarshalStrict([]byte(block[1]), &monitor); err != nil {
			t.Fatal(err)
		}
		config := monitor.Spec.Endpoints[0].TLSConfig
		if err := config.Validate(); err != nil {
			t.Fatal(err)
		}
		if ca := config.CA.ConfigMap; ca == nil || ca.Name != "servingcert-ca.crt" || ca.Key != "ca.crt" || *config.ServerName != "web.shop.svc" {
			t.Fatalf("%+v", config)
		}
		return
	}
	t.Fatal("no ServiceMonitor")
}
