package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestWhatCallersSpeak: the manifest of a caller determines the port of the Service, and whether it uses TLS.
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
		ingress("nginx.ingress.kubernetes.io/backend-protocol: HTTPS"):   "80 tls",
		ingress("nginx.org/ssl-services: 'api, web'"):                    "80 tls",
		ingress("nginx.org/ssl-services: api"):                           "80 plaintext",
		ingress("haproxy.org/server-ssl: 'true'"):                        "80 tls",
		ingress("haproxy-ingress.github.io/backend-protocol: h2-ssl"):    "80 tls",
		ingress("alb.ingress.kubernetes.io/backend-protocol: HTTPS"):     "80 tls",
		ingress("alb.ingress.kubernetes.io/healthcheck-protocol: HTTPS"): "80 plaintext",

		route("8080", "edge"):                              "80 plaintext", // the port of the pods
		route("9090", "reencrypt"):                         "9090 tls",
		route("http", "passthrough"):                       "80 tls", // the name of the Service's
		route("80", "edge"):                                "0 plaintext",
		gateway("HTTPRoute", web):                          "80 plaintext",
		gateway("TLSRoute", web):                           "80 tls",
		gateway("TCPRoute", web):                           "80 unknown",
		gateway("HTTPRoute", "{kind: Bucket, name: web}"):  "",
		gateway("HTTPRoute", "{kind: Service, name: web}"): "0 plaintext",
		scraped("prometheus.io/scrape: 'false'"):           "",
		scraped("prometheus.io/scrape: 'true'"):            "0 plaintext",
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

// TestIngressAnnotationsOnServices: some controllers read annotations of the Service; those to change are listed.
func TestIngressAnnotationsOnServices(t *testing.T) {
	for _, tt := range []struct {
		class, ingress, service, port string
		want                          Speaks
		change                        []string
	}{
		{"gce", "", `cloud.google.com/app-protocols: '{"http":"HTTPS"}'`, "number: 80", SpeaksTLS, nil},
		{"gce", "", `cloud.google.com/app-protocols: '{"metrics":"HTTPS"}'`, "number: 80", SpeaksPlaintext, []string{
			`cloud.google.com/app-protocols of the Service: {"(the name of the port with TLS)":"HTTPS"}`, "cloud.google.com/backend-config of the Service: (a BackendConfig whose healthCheck.type is HTTPS)",
		}},
		{"gce", "", `cloud.google.com/app-protocols: '{'`, "name: http", SpeaksPlaintext, []string{
			`cloud.google.com/app-protocols of the Service: {"(the name of the port with TLS)":"HTTPS"}`, "cloud.google.com/backend-config of the Service: (a BackendConfig whose healthCheck.type is HTTPS)",
		}},
		{"traefik", "", "traefik.ingress.kubernetes.io/service.serversscheme: https", "number: 80", SpeaksTLS, nil},
		{"traefik-internal", "", "", "number: 80", SpeaksPlaintext, []string{"traefik.ingress.kubernetes.io/service.serversscheme of the Service: https"}},
		{"contour", "", "projectcontour.io/upstream-protocol.tls: '443, 80'", "number: 80", SpeaksTLS, nil},
		{"contour", "", "projectcontour.io/upstream-protocol.tls: http", "number: 80", SpeaksTLS, nil},
		{"contour", "", "projectcontour.io/upstream-protocol.tls: '443'", "number: 80", SpeaksPlaintext, []string{"projectcontour.io/upstream-protocol.tls of the Service: (the name of the port with TLS)"}},
		{"alb", "alb.ingress.kubernetes.io/backend-protocol: HTTP", "", "number: 80", SpeaksPlaintext, []string{
			"alb.ingress.kubernetes.io/backend-protocol of the Ingress: HTTPS", "alb.ingress.kubernetes.io/healthcheck-protocol of the Ingress: HTTPS",
		}},
		{"nginx", "", "", "name: http", SpeaksPlaintext, []string{"nginx.ingress.kubernetes.io/backend-protocol of the Ingress: HTTPS"}},
		{"unheard-of", "", "", "name: http", SpeaksPlaintext, nil},
	} {
		refs := planOf(t, fmt.Sprintf(`{apiVersion: v1, kind: Service, metadata: {name: web, annotations: {%s}}, spec: {selector: {app: web}, ports: [{name: http, port: 80}, {name: metrics, port: 9090}]}}
---
{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: i, annotations: {%s}}, spec: {ingressClassName: %s, rules: [{http: {paths: [{backend: {service: {name: web, port: {%s}}}}]}}]}}`,
			tt.service, tt.ingress, tt.class, tt.port)).Services[0].References
		if assert.Len(t, refs, 1) {
			assert.Equal(t, tt.want, refs[0].Speaks, "%+v", tt)
			assert.Equal(t, tt.change, refs[0].Change, "%+v", tt)
		}
	}
}

// TestLoadBalancersCheckPlaintext: their annotations are named, because removing plaintext may break their checks.
func TestLoadBalancersCheckPlaintext(t *testing.T) {
	p := planOf(t, `{apiVersion: v1, kind: Service, metadata: {name: web, annotations: {service.beta.kubernetes.io/aws-load-balancer-healthcheck-path: /, other: x}}, spec: {type: LoadBalancer, selector: {app: web}, ports: [{port: 80}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: web, labels: {app: web}}, spec: {containers: [{name: c, image: i}]}}`).Services[0].Ports[0]
	assert.Contains(t, p.Notes, "before you remove plaintext, check these annotations: service.beta.kubernetes.io/aws-load-balancer-healthcheck-path")
}

// TestNetworkPoliciesThatKeepClientsOut: one that allows only the program's port is named, with the proxy's port.
func TestNetworkPoliciesThatKeepClientsOut(t *testing.T) {
	const note = "NetworkPolicy p limits the ingress of Pod/web: allow the proxy's port in it, usually 15444 (see https://github.com/servingcert/servingcert/blob/main/docs/injection.md)"
	policy := func(spec string) string {
		return "\n---\n{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: p}, spec: {" + spec + "}}\n"
	}
	const selected = "podSelector: {matchLabels: {app: web}}, "
	for spec, blocks := range map[string]bool{
		selected + "ingress: [{ports: [{port: 8080}]}]":                 true,
		selected + "ingress: []":                                        true,
		selected + "ingress: [{ports: [{port: http}]}]":                 true,
		selected + "ingress: [{ports: [{port: 15444, protocol: UDP}]}]": true,
		selected + "ingress: [{ports: [{port: 8080, endPort: 9000}]}]":  true,
		selected + "ingress: [{ports: [{port: 8080, endPort: 20000}]}]": false,
		selected + "ingress: [{ports: [{port: 8080}, {port: 15444}]}]":  false,
		selected + "ingress: [{ports: [{port: sc-tls-8080}]}]":          false,
		selected + "ingress: [{ports: [{protocol: TCP}]}]":              false,
		selected + "ingress: [{from: [{podSelector: {}}]}]":             false,
		selected + "policyTypes: [Egress]":                              false,
		"podSelector: {matchLabels: {app: other}}, ingress: []":         false,
		"podSelector: {}, policyTypes: [Ingress, Egress]":               true,
	} {
		notes := planOf(t, serviceWeb+podWeb("ports: [{containerPort: 8080}]")+policy(spec)).Services[0].Ports[0].Notes
		assert.Equal(t, blocks, slices.Contains(notes, note), "%s: %v", spec, notes)
	}
	notes := planOf(t, serviceWeb+podWeb("ports: [{containerPort: 8080}]")+policy(selected+"ingress: []")+strings.Replace(policy(selected+"ingress: [{}]"), "name: p", "name: q", 1)).Services[0].Ports[0].Notes
	assert.NotContains(t, strings.Join(notes, "\n"), "NetworkPolicy", "policies add up")
}
