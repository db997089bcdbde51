package plan

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestWays: a Service and its pods determine the way to TLS.
func TestWays(t *testing.T) {
	const otherKeys = "servingcert.dev/issuer: external, servingcert.dev/key-source: pod"
	const asks, metricsServer = "servingcert.dev/secret-name: w", "registry.k8s.io/metrics-server/metrics-server:v0.8.0"
	service := func(annotations, spec string) string {
		return fmt.Sprintf("{apiVersion: v1, kind: Service, metadata: {name: web, annotations: {%s}}, spec: {selector: {app: web}, %s}}\n", annotations, spec)
	}
	pod := func(name, image, fields string) string {
		return fmt.Sprintf("---\n{apiVersion: v1, kind: Pod, metadata: {name: %s, labels: {app: web}}, spec: {containers: [{name: c, image: %q, %s}]}}\n", name, image, fields)
	}
	declares := podWeb("ports: [{name: http, containerPort: 8080}]")
	const ownTLS = "the program itself serves TLS on the port to which the proxy would forward (sc-tls-8080): no proxy is added, and the pod is not an endpoint of the port; " +
		"set the Service's targetPort to the program's port, or turn off the program's TLS; if the webhook turned it on, servingcert.dev/mode: mount does that"
	argocd := pod("web", "quay.io/argoproj/argocd:v3.2.0", "args: [/usr/local/bin/argocd-server], ports: [{name: server, containerPort: 8080}, {containerPort: 8083}]")
	declares2 := strings.Replace(declares, "name: web", "name: other", 1)
	for _, tt := range []struct{ manifests, want string }{
		{"{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {type: ExternalName, externalName: example.com}}", "none, it is an alias of example.com"},
		{service("", "ports: []"), "none, it has no ports"},
		{"{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {ports: [{port: 80}]}}", "none, the Service has no selector: 80 unknown"},
		{service("", "ports: [{port: 80}]"), "none, no known workload matches its selector: 80 unknown"},
		{service("", "ports: [{port: 80}, {port: 81}]"), "none, no known workload matches its selector: 80 unknown, 81 unknown"},
		{service("", "ports: [{port: 53, protocol: UDP}]") + declares, "none, its protocol is UDP, and only TCP is supported: 53 plaintext"},
		{service("", "ports: [{port: 80, targetPort: other}]") + declares, "none, no container declares port other: 80 unknown"},
		{service("", "ports: [{port: 80, targetPort: other}, {port: 81, targetPort: none}]") + declares, "none, no container declares port other; no container declares port none: 80 unknown, 81 unknown"},
		{service("", "ports: [{port: 80, targetPort: http}]") + declares, "port: 80 plaintext, proxy sc-tls-8080"},
		{service("", "ports: [{port: 80, targetPort: http}, {port: 81, targetPort: none}]") + declares, "port: 80 plaintext, proxy sc-tls-8080, 81 unknown"},

		{service(asks, "ports: [{name: a, port: 80, targetPort: 8080}, {name: b, port: 443, targetPort: sc-tls-8080}]") + declares, "move: 80 plaintext, beside 443, 443 proxy"},
		{service(asks, "ports: [{name: a, port: 80, targetPort: http}, {name: b, port: 443, targetPort: sc-tls-http}]") + declares, "move: 80 plaintext, beside 443, 443 proxy"},
		{service(asks, "ports: [{name: a, port: 80, targetPort: http}, {name: b, port: 443, targetPort: sc-tls-8080}]") + declares, "move: 80 plaintext, beside 443, 443 proxy"},
		{service(asks, "ports: [{name: a, port: 80, targetPort: 8081}, {name: b, port: 443, targetPort: sc-tls-8080}]") + declares, "port: 80 plaintext, proxy sc-tls-8081, 443 proxy"},
		{service(asks, "ports: [{port: 80, targetPort: sc-any-8080}]") + declares, "move: 80 any"},
		{service(asks, "ports: [{port: 443, targetPort: sc-tls-8080}]") + declares, "done: 443 proxy"},
		{service(asks, "ports: [{name: a, port: 443, targetPort: sc-tls-8080}, {name: b, port: 53, protocol: UDP}]") + declares, "done: 443 proxy, 53 plaintext"},
		{service(asks, "ports: [{name: a, port: 443, targetPort: sc-tls-8080}, {name: b, port: 90, targetPort: other}]") + declares, "none, no container declares port other: 443 proxy, 90 unknown"},

		{service("", "ports: [{port: 443, targetPort: sc-tls-8080}]") + declares, "native: 443 asked"},
		{service("", "ports: [{port: 443, targetPort: sc-tls-8080}]"), "none, port 443: the Service has no annotation servingcert.dev/secret-name: 443 asked"},
		{service(asks, "ports: [{port: 443, targetPort: sc-tls-8080}]"), "none, port 443: no known workload matches its selector: 443 asked"},
		{service(asks, "ports: [{port: 443, targetPort: sc-tls-8080}]") + strings.Replace(declares, "spec: {", "spec: {hostNetwork: true, ", 1), "none, port 443: Pod/web uses the host network, whose loopback interface is shared: 443 asked"},
		{service(asks, "ports: [{port: 443, targetPort: sc-tls-8080}]") + strings.Replace(declares, "metadata: {", "metadata: {annotations: {servingcert.dev/secret-name: mine}, ", 1), "none, port 443: Pod/web uses Secret mine, which its own annotation names: 443 asked"},
		{service("", "ports: [{port: 80, targetPort: 8080}]") + strings.Replace(declares, "metadata: {", "metadata: {annotations: {servingcert.dev/secret-name: mine}, ", 1), "none, the pods of Pod/web name Secret mine themselves (annotation servingcert.dev/secret-name): remove the annotation, or set it on the Service too: 80 plaintext"},
		{strings.Replace(service(asks, "ports: [{port: 443, targetPort: sc-tls-8080}]"), "metadata: {", "metadata: {namespace: kube-system, ", 1), "none, port 443: the webhook changes no pods in namespace kube-system: 443 asked"},
		{strings.ReplaceAll(service("", "ports: [{port: 80, targetPort: 8080}]")+declares, "metadata: {", "metadata: {namespace: kube-system, "), "none, the webhook changes no pods in namespace kube-system: 80 plaintext"},
		{service("", "ports: [{name: dns-tcp, port: 53, targetPort: 8053}]") + declares, "none, it is a DNS port, and DNS clients use plaintext: 53 plaintext"},
		{service("", "ports: [{name: dns-tcp, port: 5353, targetPort: 53}]") + declares, "none, it is a DNS port, and DNS clients use plaintext: 5353 plaintext"},
		{service(otherKeys, "ports: [{port: 80, targetPort: 8080}]") + declares, "none, annotations servingcert.dev/issuer: external and servingcert.dev/key-source: pod: a proxy gets no certificate of another signer: 80 plaintext"},
		{service(otherKeys, "ports: [{name: https, port: 443, targetPort: 8080}]") + declares, "check, port 443: its name or appProtocol is https: 443 declared"},
		{service(asks, "ports: [{port: 443, targetPort: sc-tls-8080}]") + declares + "---\n{apiVersion: v1, kind: Namespace, metadata: {name: default}}\n", "rollout, port 443: the namespace has no label servingcert.dev/inject=enabled: 443 asked"},

		{service(asks, "ports: [{port: 443, targetPort: sc-tls-8080}]") + argocd, "check, port 443: Pod/web: " + ownTLS + ": 443 asked"},
		{service("", "ports: [{port: 443, targetPort: sc-tls-8080}]") + argocd, "check, port 443: Pod/web: " + ownTLS + ": 443 asked"},
		{service(asks, "ports: [{name: a, port: 90, targetPort: 8083}, {name: b, port: 443, targetPort: sc-tls-8080}]") + argocd, "check, port 443: Pod/web: " + ownTLS + ": 90 plaintext, proxy sc-tls-8083, 443 asked"},
		{service(asks, "ports: [{port: 443, targetPort: sc-tls-8080}]") + argocd + declares2, "done: 443 proxy"},
		{service("", "ports: [{port: 80, targetPort: 8080}]") + strings.Replace(argocd, "args:", "readinessProbe: {httpGet: {port: 8080}}, args:", 1), "check, port 80: Pod/web itself serves TLS on this port: 80 declared"},

		{service("", "ports: [{name: https, port: 8443}]") + declares, "check, port 8443: its name or appProtocol is https: 8443 declared"},
		{service("", "ports: [{name: web, appProtocol: https, port: 8443}]") + declares, "check, port 8443: its name or appProtocol is https: 8443 declared"},
		{service("", "ports: [{port: 443, targetPort: 9000}]") + declares, "check, port 443: its number is 443: 443 declared"},
		{service("", "ports: [{port: 443, targetPort: 8080}]") + declares, "port: 443 plaintext, proxy sc-tls-8080"},
		{service("", "ports: [{port: 443, targetPort: 80}]") + declares, "port: 443 plaintext, proxy sc-tls-80"},
		{service("", "ports: [{port: 90}]") + podWeb("readinessProbe: {httpGet: {port: 90, scheme: HTTPS}}"), "done: 90 own"},
		{service("", "ports: [{port: 90}]") + podWeb("readinessProbe: {httpGet: {port: 90}}, args: ['https://localhost:90']"), "port: 90 plaintext, proxy sc-tls-90"},

		{service("", "ports: [{name: https, port: 443, targetPort: 9443}]") + pod("web", metricsServer, "args: [--secure-port=9443]"), "native: 443 declared, possible"},
		{service(asks, "ports: [{name: https, port: 443, targetPort: 9443}]") + pod("web", metricsServer, "args: [--secure-port=9443]"), "done: 443 tls, possible"},
		{service("", "ports: [{name: https, port: 443, targetPort: 9443}]") + pod("web", metricsServer, "args: [--secure-port=9443]") + pod("other", "registry.example/app:1", "args: [x]"), "check, port 443: its name or appProtocol is https: 443 declared"},
		{service("", "ports: [{name: https, port: 443, targetPort: 9443}]") + pod("web", metricsServer, "args: [--secure-port=9443, --tls-cert-file=/a]"), "check, port 443: Pod/web sets tls-cert-file: 443 declared"},
	} {
		s := planOf(t, tt.manifests).Services[0]
		got := string(s.Way)
		if s.Why != "" {
			got += ", " + s.Why
		}
		var ports []string
		for _, p := range s.Ports {
			port := fmt.Sprint(p.Port, " ", p.Today)
			if p.Beside != 0 {
				port += fmt.Sprint(", beside ", p.Beside)
			}
			if p.Proxy != "" {
				port += ", proxy " + p.Proxy
			}
			if p.Native != nil && p.Native.Possible {
				port += ", possible"
			}
			ports = append(ports, port)
		}
		if ports != nil {
			got += ": " + strings.Join(ports, ", ")
		}
		assert.Equal(t, tt.want, got, tt.manifests)
	}
}

// TestOnly: a plan of some Services equals that part of the whole plan.
func TestOnly(t *testing.T) {
	named := func(name string) string { return strings.ReplaceAll(serviceWeb+podWeb("args: [x]"), "web", name) }
	p := planOf(t, named("a")+"---\n"+named("b")+"---\n"+strings.ReplaceAll(podWeb("args: ['http://a', 'http://b']"), "web", "caller"))
	for _, names := range [][]string{{"b"}, {"default/b"}, {"b", "default/b"}} {
		only, err := p.Only(names)
		require.NoError(t, err)
		require.Len(t, only.Services, 1, names)
		assert.Equal(t, "b", only.Services[0].Name)
		assert.Equal(t, Totals{Services: 1, Ways: map[Way]int{WayPort: 1}, References: 1, Programs: 1, Connect: 1}, only.Totals)
		require.Len(t, only.Clients, 1)
		assert.Equal(t, "b", only.Clients[0].Connect)
	}
	_, err := p.Only([]string{"a", "c"})
	assert.EqualError(t, err, `Service "c": not found`)
	assert.Equal(t, Totals{Services: 2, Ways: map[Way]int{WayPort: 2}, References: 2, Programs: 2, Connect: 2}, p.Totals)
}

// TestWhatMustMove: the references that fail without plaintext are counted and listed first.
func TestWhatMustMove(t *testing.T) {
	const pods = "---\n{apiVersion: v1, kind: Pod, metadata: {name: caller}, spec: {hostNetwork: true, containers: [{name: c, image: registry.example/app:1, args: ['https://web:80', 'http://web:9090', 'web:80', 'http://web:80']}]}}\n"
	const caller = "Pod/caller"
	for name, tt := range map[string]struct {
		manifests string
		toMove    int
		unclear   string // the step about unknown protocols
	}{
		"two plaintext ports":        {serviceWeb + podWeb("ports: [{containerPort: 8080}]") + pods, 2, "check 1 address with an unknown protocol"},
		"one that already moves":     {strings.Replace(serviceWeb, "port: 9090", "port: 9090, targetPort: sc-any-8081", 1) + podWeb("ports: [{containerPort: 8080}]") + pods, 1, "check 1 address with an unknown protocol"},
		"callers inside the pod":     {serviceWeb + podWeb("args: ['http://localhost:8080']"), 0, ""},
		"a Service without the port": {strings.Replace(serviceWeb, "port: 9090", "port: 9091", 1) + podWeb("args: [a]") + strings.Replace(pods, "http://web:9090", "http://web.default.svc:9090", 1), 2, "check 1 address with an unknown protocol"},
	} {
		s := planOf(t, tt.manifests).Services[0]
		assert.Equal(t, tt.toMove, s.ToMove, name)
		unclear := ""
		for _, step := range s.Steps {
			if strings.HasPrefix(step.What, "check ") {
				unclear = step.What
			}
		}
		assert.Equal(t, tt.unclear, unclear, name)
	}
	var order []string
	for _, r := range planOf(t, serviceWeb+podWeb("args: ['http://localhost:8080']")+pods).Services[0].References {
		order = append(order, string(r.Speaks)+" "+r.Kind+"/"+r.Name)
	}
	assert.Equal(t, []string{"plaintext " + caller, "plaintext " + caller, "unknown " + caller, "plaintext Pod/web", "tls " + caller}, order)
}

// TestGatewaysThatSpeakTLS: a BackendTLSPolicy makes gateways use TLS for all ports or for one.
func TestGatewaysThatSpeakTLS(t *testing.T) {
	route := func(port int) string {
		return fmt.Sprintf("---\n{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {name: r%[1]d}, spec: {rules: [{backendRefs: [{name: web, port: %[1]d}], filters: [{requestMirror: {backendRef: {name: web, port: %[1]d}}}]}]}}\n", port)
	}
	policy := func(ref string) string {
		return "---\n{apiVersion: gateway.networking.k8s.io/v1, kind: BackendTLSPolicy, metadata: {name: p}, spec: {targetRefs: [" + ref + "]}}\n"
	}
	const ofOpenShift = "---\n{apiVersion: route.openshift.io/v1, kind: Route, metadata: {name: r}, spec: {to: {name: web}, port: {targetPort: http}}}\n"
	for ref, want := range map[string][]string{
		"{name: other}":                     {"80 plaintext", "80 plaintext", "9090 plaintext", "9090 plaintext"},
		"{name: web}":                       {"80 tls", "80 tls", "9090 tls", "9090 tls"},
		"{name: web, sectionName: http}":    {"80 tls", "80 tls", "9090 plaintext", "9090 plaintext"},
		"{name: web, sectionName: metrics}": {"80 plaintext", "80 plaintext", "9090 tls", "9090 tls"},
	} {
		var got []string
		for _, r := range planOf(t, serviceWeb+route(80)+route(9090)+ofOpenShift+policy(ref)).Services[0].References {
			if r.Kind == "Route" {
				assert.Equal(t, SpeaksPlaintext, r.Speaks, "the policy is for gateways only")
				continue
			}
			got = append(got, fmt.Sprint(r.Port, " ", r.Speaks))
		}
		assert.ElementsMatch(t, want, got, ref)
	}
}

// TestWhatBreaks: plaintext callers of the port fail if the program serves TLS itself; probes do not.
func TestWhatBreaks(t *testing.T) {
	const program = "---\n{apiVersion: v1, kind: Pod, metadata: {name: web, labels: {app: web}}, spec: {containers: [{name: c, image: 'registry.k8s.io/kube-state-metrics/kube-state-metrics:v2.15.0', readinessProbe: {httpGet: {port: 8080}}}]}}\n"
	caller := func(args string) string {
		return "---\n{apiVersion: v1, kind: Pod, metadata: {name: caller}, spec: {containers: [{name: c, image: registry.example/app:1, args: [" + args + "]}]}}\n"
	}
	for args, want := range map[string]string{
		"x":                                  "",
		"'http://web:80'":                    "1 plaintext reference",
		"'http://web', 'http://web.default'": "2 plaintext references",
		"'https://web:80', 'web:80', 'http://web:9090'": "",
	} {
		n := planOf(t, serviceWeb+program+caller(args)).Services[0].Ports[0].Native
		require.NotNil(t, n)
		var got string
		for _, b := range n.Breaks {
			if strings.Contains(b, "reference") {
				got = b
			}
		}
		assert.Equal(t, want, got, args)
	}
}
