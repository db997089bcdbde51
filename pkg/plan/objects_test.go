package plan

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestWhatCallersSpeak: from the manifest of a caller follows which port of the Service it calls, and whether with TLS.
func TestWhatCallersSpeak(t *testing.T) {
	ingress := func(annotations string) string {
		return fmt.Sprintf(`{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: i, annotations: {%s}},
spec: {rules: [{host: h, http: {paths: [{path: /, backend: {service: {name: web, port: {number: 80}}}}]}}]}}`, annotations)
	}
	route := func(port, termination string) string {
		return fmt.Sprintf(`{apiVersion: route.openshift.io/v1, kind: Route, metadata: {name: r},
spec: {to: {name: web}, port: {targetPort: %s}, tls: {termination: %s}}}`, port, termination)
	}
	gateway := func(kind, ref string) string {
		return fmt.Sprintf(`{apiVersion: gateway.networking.k8s.io/v1, kind: %s, metadata: {name: r},
spec: {rules: [{backendRefs: [%s]}]}}`, kind, ref)
	}
	scraped := func(annotations string) string {
		return fmt.Sprintf(`{apiVersion: v1, kind: Service, metadata: {name: web, annotations: {%s}},
spec: {selector: {app: web}, ports: [{name: http, port: 80, targetPort: 8080}, {name: metrics, port: 9090}]}}`, annotations)
	}
	const web = "{name: web, port: 80}"
	for caller, want := range map[string]string{
		ingress(""): "80 plaintext",
		ingress("nginx.ingress.kubernetes.io/backend-protocol: HTTPS"): "80 tls",
		ingress("nginx.org/ssl-services: 'api, web'"):                  "80 tls",
		ingress("nginx.org/ssl-services: api"):                         "80 plaintext",
		route("8080", "edge"):                                          "80 plaintext", // the port of the pods
		route("9090", "reencrypt"):                                     "9090 tls",
		route("http", "passthrough"):                                   "80 tls", // the name of the Service's
		route("80", "edge"):                                            "0 plaintext",
		gateway("HTTPRoute", web):                                      "80 plaintext",
		gateway("TLSRoute", web):                                       "80 tls",
		gateway("TCPRoute", web):                                       "80 unknown",
		gateway("HTTPRoute", "{kind: Bucket, name: web}"):              "",
		gateway("HTTPRoute", "{kind: Service, name: web}"):             "0 plaintext",
		scraped("prometheus.io/scrape: 'false'"):                       "",
		scraped("prometheus.io/scrape: 'true'"):                        "0 plaintext",
		scraped("prometheus.io/scrape: 'true', prometheus.io/scheme: https, prometheus.io/port: '8080'"): "80 tls",
		scraped("prometheus.io/scrape: 'true', prometheus.io/port: '80'"):                                "80 plaintext",
	} {
		var got string
		manifests := caller
		if !strings.Contains(caller, "prometheus.io") {
			manifests = scraped("") + "\n---\n" + caller
		}
		for _, s := range planOf(t, manifests).Services {
			for _, r := range s.References {
				got = fmt.Sprint(r.Port, " ", r.Speaks)
			}
		}
		assert.Equal(t, want, got, caller)
	}
}
