package plan

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const serviceWeb = `{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {selector: {app: web}, ports: [{name: http, port: 80, targetPort: 8080}, {name: metrics, port: 9090}]}}
`

// podWeb returns a pod behind the Service, with these fields in its container.
func podWeb(fields string) string {
	return fmt.Sprintf("---\n{apiVersion: v1, kind: Pod, metadata: {name: web, labels: {app: web}}, spec: {containers: [{name: c, image: registry.example/app:1, %s}]}}\n", fields)
}

// referencesIn lists the references to Service web: VIA PORT PROTOCOL WHERE ADDRESS.
func referencesIn(t *testing.T, manifests string) (out []string) {
	for _, s := range planOf(t, manifests).Services {
		if s.Name != "web" {
			continue
		}
		for _, r := range s.References {
			out = append(out, strings.TrimSpace(fmt.Sprint(r.Via, " ", r.Port, " ", r.Speaks, " ", r.Where, " ", r.Address)))
		}
	}
	return out
}

// TestCallsInsideThePod: by containers over loopback, and by the kubelet.
func TestCallsInsideThePod(t *testing.T) {
	const ports = "ports: [{name: web, containerPort: 8080}, {name: udp, containerPort: 8080, protocol: UDP}, {name: metrics, containerPort: 9090, protocol: TCP}]"
	for fields, want := range map[string][]string{
		"readinessProbe: {httpGet: {port: 8080}}":                       {"probe 80 plaintext container c, readinessProbe"},
		"livenessProbe: {httpGet: {port: 8080, scheme: HTTPS}}":         {"probe 80 tls container c, livenessProbe"},
		"startupProbe: {httpGet: {port: web}}, " + ports:                {"probe 80 plaintext container c, startupProbe"},
		"startupProbe: {httpGet: {port: metrics}}, " + ports:            {"probe 9090 plaintext container c, startupProbe"},
		"startupProbe: {httpGet: {port: udp}}, " + ports:                nil,
		"startupProbe: {httpGet: {port: other}}, " + ports:              nil,
		"readinessProbe: {httpGet: {port: 8080, host: example.com}}":    nil,
		"readinessProbe: {httpGet: {port: 8081}}":                       nil,
		"readinessProbe: {tcpSocket: {port: 8080}}":                     nil,
		"lifecycle: {preStop: {httpGet: {port: 8080}}}":                 {"probe 80 plaintext container c, preStop"},
		"lifecycle: {postStart: {exec: {command: ['localhost:8080']}}}": {"localhost 80 unknown container c, postStart localhost:8080"},
		"livenessProbe: {exec: {command: [curl, 'http://localhost:8080/healthz']}}": {
			"localhost 80 plaintext container c, livenessProbe http://localhost:8080"},
		"env: [{name: A, value: 'https://127.0.0.1:8080'}]":                                                     {"localhost 80 tls container c, env A https://127.0.0.1:8080"},
		"env: [{name: A, value: 'http://127.0.0.2:8080'}]":                                                      nil,
		"args: ['--upstream=http://localhost:8080', 'localhost:9090']":                                          {"localhost 80 plaintext container c, arguments http://localhost:8080", "localhost 9090 unknown container c, arguments localhost:9090"},
		"args: ['--upstream=http://localhost:$(PORT)'], env: [{name: PORT, value: '8080'}]":                     {"localhost 80 plaintext container c, arguments http://localhost:8080"},
		"args: ['--upstream=http://localhost:${PORT}'], env: [{name: PORT, value: '8080'}]":                     {"localhost 80 plaintext container c, arguments http://localhost:8080"},
		"args: ['localhost:$(PORT)'], env: [{name: PORT, valueFrom: {configMapKeyRef: {name: a, key: b}}}]":     nil,
		"args: ['localhost:$(B)'], env: [{name: A, value: '8080'}, {name: B, value: '$(A)'}]":                   {"localhost 80 unknown container c, arguments localhost:8080"},
		"args: ['localhost:$(B)'], env: [{name: B, value: '$(A)'}, {name: A, value: '8080'}]":                   nil, // as the kubelet does, in order
		"lifecycle: {preStop: {httpGet: {port: 8080}}, postStart: {httpGet: {port: 9090}}}":                     {"probe 9090 plaintext container c, postStart", "probe 80 plaintext container c, preStop"},
		"readinessProbe: {httpGet: {port: 8080}}, livenessProbe: {exec: {command: ['http://127.0.0.1:8080/']}}": {"localhost 80 plaintext container c, livenessProbe http://127.0.0.1:8080", "probe 80 plaintext container c, readinessProbe"},
	} {
		assert.ElementsMatch(t, want, referencesIn(t, serviceWeb+podWeb(fields)), fields)
	}
}

// TestNamesOfServices: texts of another workload that refer to a Service, and the ports.
func TestNamesOfServices(t *testing.T) {
	caller := func(fields string) string {
		return serviceWeb + "---\n{apiVersion: v1, kind: Pod, metadata: {name: caller}, spec: {containers: [{name: c, image: registry.example/app:1, " + fields + "}]}}\n"
	}
	for fields, want := range map[string][]string{
		"env: [{name: A, value: 'http://web'}]":                 {"env 80 plaintext container c, env A http://web"},
		"env: [{name: A, value: 'https://web.default.svc'}]":    {"env 0 tls container c, env A https://web.default.svc"},
		"env: [{name: A, value: 'web:9090'}]":                   {"env 9090 unknown container c, env A web:9090"},
		"env: [{name: A, value: 'web:1'}]":                      nil, // probably a word or a file name
		"env: [{name: A, value: 'web.default.svc:1'}]":          {"env 0 unknown container c, env A web.default.svc:1"},
		"env: [{name: A, value: web}]":                          nil,
		"env: [{name: WEB_HOST, value: web}]":                   {"env 0 unknown container c, env WEB_HOST web"},
		"env: [{name: HOST_OF, value: web}]":                    nil,
		"env: [{name: WEB_HOST, value: 'web:80'}]":              {"env 80 unknown container c, env WEB_HOST web:80"},
		"env: [{name: A, value: 'tls://web.default'}]":          {"env 0 tls container c, env A tls://web.default"},
		"command: [run], args: ['--to', 'http://web.default']":  {"args 80 plaintext container c, arguments http://web.default"},
		"command: ['http://web.other'], args: ['web.x.y.z:80']": nil,
	} {
		assert.ElementsMatch(t, want, referencesIn(t, caller(fields)), fields)
	}
}

// TestConfigMaps: their references and their users.
func TestConfigMaps(t *testing.T) {
	const config = "---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: %s}, data: {%s}}\n"
	for data, want := range map[string][]string{
		"app.yaml: 'a: http://web'": {"configmap 80 plaintext key app.yaml http://web"},
		"WEB_HOST: ' web '":         {"configmap 0 unknown key WEB_HOST web"},
		"WEB: web":                  nil,
	} {
		assert.Equal(t, want, referencesIn(t, serviceWeb+fmt.Sprintf(config, "config", data)), data)
		assert.Empty(t, referencesIn(t, serviceWeb+fmt.Sprintf(config, "servingcert-ca.crt", data)), "the CA bundle has no references")
	}
	for spec, used := range map[string]bool{
		"volumes: [{name: v, configMap: {name: config}}], containers: [{name: c, image: i}]":                                                               true,
		"volumes: [{name: v, projected: {sources: [{secret: {name: s}}, {configMap: {name: config}}]}}], containers: [{name: c, image: i}]":                true,
		"volumes: [{name: v, projected: {sources: [{configMap: {name: other}}]}}], containers: [{name: c, image: i}]":                                      false,
		"volumes: [{name: v, emptyDir: {}}], containers: [{name: c, image: i}]":                                                                            false,
		"containers: [{name: c, image: i, envFrom: [{secretRef: {name: config}}]}]":                                                                        false,
		"containers: [{name: c, image: i, envFrom: [{configMapRef: {name: config}}]}]":                                                                     true,
		"containers: [{name: c, image: i, env: [{name: A, valueFrom: {configMapKeyRef: {name: config, key: a}}}]}]":                                        true,
		"containers: [{name: c, image: i, env: [{name: A, valueFrom: {secretKeyRef: {name: config, key: a}}}, {name: B, value: config}]}]":                 false,
		"containers: [{name: c, image: i}], initContainers: [{name: d, image: i, env: [{name: A, valueFrom: {configMapKeyRef: {name: config, key: a}}}]}]": true,
	} {
		p := planOf(t, serviceWeb+fmt.Sprintf(config, "config", "app.yaml: 'http://web'")+"---\n{apiVersion: v1, kind: Pod, metadata: {name: caller}, spec: {"+spec+"}}")
		require.Len(t, p.Services[0].References, 1)
		by := p.Services[0].References[0].UsedBy
		assert.Equal(t, used, len(by) == 1 && by[0] == "Pod/caller", "%s: %v", spec, by)
	}
}

// TestHowManyUsersAreListed: the users of a ConfigMap are listed up to a limit.
func TestHowManyUsersAreListed(t *testing.T) {
	manifests := serviceWeb + "---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: config}, data: {a: 'http://web'}}\n"
	for i := range maxUsers + 2 {
		manifests += fmt.Sprintf("---\n{apiVersion: v1, kind: Pod, metadata: {name: p%d}, spec: {containers: [{name: c, image: i, envFrom: [{configMapRef: {name: config}}]}]}}\n", i)
	}
	assert.Len(t, planOf(t, manifests).Services[0].References[0].UsedBy, maxUsers)
}
