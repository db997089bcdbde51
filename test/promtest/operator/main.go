// Command scrapeconfig writes the scrape configuration that the Prometheus operator generates from the PodMonitors in
// a file of manifests, with the operator's library. `make generate` runs it on deploy/podmonitors.yaml, and `make
// lint-long` compares.
package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/prometheus-operator/prometheus-operator/pkg/assets"
	"github.com/prometheus-operator/prometheus-operator/pkg/prometheus"
	yamlv2 "gopkg.in/yaml.v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

const (
	// header contains the hash of the input, which the tests of test/promtest compare without the operator's library.
	header = "# What the Prometheus operator makes of deploy/podmonitors.yaml (SHA-256 %x). `make generate` writes this file.\n"
	// token is the placeholder for the token in the Secret that a PodMonitor names.
	token = "TOKEN"
	// version is the version of Debian's Prometheus: the operator omits fields that it does not support.
	version = "v2.42.0"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: scrapeconfig PODMONITORS OUTPUT")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "scrapeconfig:", err)
		os.Exit(1)
	}
}

func run(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	monitors, err := podMonitors(data)
	if err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	scrape, err := scrapeConfigs(monitors)
	if err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	return os.WriteFile(to, append(fmt.Appendf(nil, header, sha256.Sum256(data)), scrape...), 0o644)
}

// podMonitors returns the PodMonitors in the manifests, by NAMESPACE/NAME. An unknown field is an error.
func podMonitors(data []byte) (map[string]*monitoringv1.PodMonitor, error) {
	monitors := map[string]*monitoringv1.PodMonitor{}
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal(document, &kind); err != nil {
			return nil, err
		}
		if kind.Kind != monitoringv1.PodMonitorsKind {
			continue
		}
		m := &monitoringv1.PodMonitor{}
		if err := yaml.UnmarshalStrict(document, m); err != nil {
			return nil, err
		}
		monitors[m.Namespace+"/"+m.Name] = m
	}
	if len(monitors) == 0 {
		return nil, errors.New("contains no PodMonitor")
	}
	return monitors, nil
}

// scrapeConfigs returns key scrape_configs of the configuration for these PodMonitors.
func scrapeConfigs(monitors map[string]*monitoringv1.PodMonitor) ([]byte, error) {
	store, err := references(monitors)
	if err != nil {
		return nil, err
	}
	p := &monitoringv1.Prometheus{
		ObjectMeta: metav1.ObjectMeta{Namespace: "monitoring", Name: "k8s"},
		Spec:       monitoringv1.PrometheusSpec{CommonPrometheusFields: monitoringv1.CommonPrometheusFields{Version: version}},
	}
	generator, err := prometheus.NewConfigGenerator(nil, p)
	if err != nil {
		return nil, err
	}
	all, err := generator.GenerateServerConfiguration(p, nil, monitors, nil, nil, store, nil, nil, nil, nil)
	if err != nil {
		return nil, err
	}
	var config yamlv2.MapSlice // preserves the order
	if err := yamlv2.Unmarshal(all, &config); err != nil {
		return nil, err
	}
	for _, item := range config {
		if item.Key == "scrape_configs" {
			return yamlv2.Marshal(yamlv2.MapSlice{item})
		}
	}
	return nil, errors.New("the operator generated no scrape_configs")
}

// references returns a store with the objects to which the PodMonitors refer, in place of the cluster's.
func references(monitors map[string]*monitoringv1.PodMonitor) (*assets.StoreBuilder, error) {
	store := assets.NewTestStoreBuilder()
	for _, m := range monitors {
		for _, e := range m.Spec.PodMetricsEndpoints {
			if e.Authorization == nil || e.Authorization.Credentials == nil || e.TLSConfig == nil || e.TLSConfig.CA.ConfigMap == nil {
				return nil, fmt.Errorf("PodMonitor %s: an endpoint without authorization.credentials or tlsConfig.ca.configMap", m.Name)
			}
			credentials, ca := e.Authorization.Credentials, e.TLSConfig.CA.ConfigMap
			if err := errors.Join(
				store.AddObject(&corev1.Secret{
					ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: credentials.Name}, Data: map[string][]byte{credentials.Key: []byte(token)},
				}),
				store.AddObject(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: ca.Name}, Data: map[string]string{ca.Key: ""}}),
				store.AddSafeAuthorizationCredentials(context.Background(), m.Namespace, e.Authorization),
			); err != nil {
				return nil, fmt.Errorf("PodMonitor %s: %w", m.Name, err)
			}
		}
	}
	return store, nil
}
