package plan

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/servingcert/servingcert/pkg/preview"
)

var update = flag.Bool("update", false, "write the expected output")

func planOf(t testing.TB, manifests string) Plan {
	t.Helper()
	docs, err := preview.Parse("shop.yaml", []byte(manifests))
	require.NoError(t, err)
	return OfManifests(docs, "", Options{})
}

func TestGolden(t *testing.T) {
	in, err := os.ReadFile("testdata/shop.yaml")
	require.NoError(t, err)
	got, err := yaml.Marshal(planOf(t, string(in)))
	require.NoError(t, err)
	const file = "testdata/shop.plan.yaml"
	if *update {
		require.NoError(t, os.WriteFile(file, got, 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, string(want), string(got), "run with -update, and read the difference")
}

// many returns the manifests of n workloads, each with a Service, a ConfigMap and an Ingress,
// that call each other.
func many(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `---
apiVersion: v1
kind: Service
metadata: {name: s%[1]d, namespace: n%[2]d, labels: {app: s%[1]d}}
spec: {selector: {app: s%[1]d}, ports: [{name: http, port: 80, targetPort: http}, {name: metrics, port: 9090}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: s%[1]d, namespace: n%[2]d}
spec:
  template:
    metadata: {labels: {app: s%[1]d}}
    spec:
      containers:
      - name: app
        image: registry.example/s%[1]d:1
        args: [--upstream=http://s%[3]d.n%[4]d.svc, --self=http://localhost:8080]
        env: [{name: A, value: "http://s%[5]d"}, {name: B, value: "tcp://s%[5]d:9090"}]
        ports: [{name: http, containerPort: 8080}, {containerPort: 9090}]
        readinessProbe: {httpGet: {port: http}}
        volumeMounts: [{name: config, mountPath: /etc/app}]
      - {name: sidecar, image: grafana/grafana:11}
      volumes: [{name: config, configMap: {name: s%[1]d}}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: s%[1]d, namespace: n%[2]d}
data:
  config: "%[6]s"
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: s%[1]d, namespace: n%[2]d}
spec: {defaultBackend: {service: {name: s%[1]d, port: {number: 80}}}}
`, i, i%20, (i*7+3)%n, (i*7+3)%n%20, (i+20)%n, strings.Repeat("x.y http://s0.n0:80 ", 100))
	}
	return b.String()
}

// TestBounded: references are listed up to a limit, and all are counted.
func TestBounded(t *testing.T) {
	p := planOf(t, many(300))
	i := slices.IndexFunc(p.Services, func(s Service) bool { return s.Name == "s0" })
	s0 := p.Services[i]
	assert.Len(t, s0.References, MaxReferences)
	assert.Positive(t, s0.MoreReferences)
	assert.GreaterOrEqual(t, s0.ToMove, 300, "a ConfigMap of each refers to it")
}

// TestServicesFollowThoseTheyCall: except in a cycle.
func TestServicesFollowThoseTheyCall(t *testing.T) {
	waves := func(calls map[string][]string) map[string]int {
		var b strings.Builder
		for name, callees := range calls {
			fmt.Fprintf(&b, "---\n{apiVersion: v1, kind: Service, metadata: {name: %[1]s}, spec: {selector: {app: %[1]s}, ports: [{port: 80}]}}\n---\n{apiVersion: v1, kind: Pod, metadata: {name: %[1]s, labels: {app: %[1]s}}, spec: {containers: [{name: c, image: i, args: [", name)
			for _, c := range callees {
				fmt.Fprintf(&b, "'http://%s', ", c)
			}
			b.WriteString("]}]}}\n")
		}
		out := map[string]int{}
		for _, s := range planOf(t, b.String()).Services {
			out[s.Name] = s.Wave
		}
		return out
	}
	assert.Equal(t, map[string]int{"a": 3, "b": 2, "c": 1, "d": 1}, waves(map[string][]string{"a": {"b", "c"}, "b": {"c"}, "c": {"c"}, "d": nil}))
	circle := waves(map[string][]string{"a": {"b"}, "b": {"c"}, "c": {"a"}})
	assert.Equal(t, map[string]int{"a": 1, "c": 2, "b": 3}, circle)
	rapid.Check(t, func(t *rapid.T) {
		names := []string{"a", "b", "c", "d", "e"}
		calls := map[string][]string{}
		for i, name := range names {
			calls[name] = nil
			for _, callee := range names[:i] { // no cycle
				if rapid.Bool().Draw(t, name+callee) {
					calls[name] = append(calls[name], callee)
				}
			}
		}
		got := waves(calls)
		for caller, callees := range calls {
			for _, callee := range callees {
				if got[caller] <= got[callee] {
					t.Fatalf("%v: %v", calls, got)
				}
			}
		}
	})
}

// TestTwice: the plan after the patches proposes no more changes to Services.
func TestTwice(t *testing.T) {
	in, err := os.ReadFile("testdata/shop.yaml")
	require.NoError(t, err)
	docs, err := preview.Parse("shop.yaml", in)
	require.NoError(t, err)
	first := OfManifests(docs, "", Options{})
	patches := map[string]*Patch{}
	for _, s := range first.Services {
		patches[s.Namespace+"/"+s.Name] = s.Patch
	}
	var b strings.Builder
	for _, d := range docs {
		for _, o := range d.Objects("default") {
			if patch := patches[o.Namespace+"/"+o.Name]; o.Kind == "Service" && patch != nil {
				require.NoError(t, json.Unmarshal([]byte(patched(t, o.Content, patch)), &o.Content))
			}
			if o.Kind == "Namespace" {
				below(below(o.Content, "metadata"), "labels")["servingcert.dev/inject"] = "enabled" // the first step
			}
			raw, err := json.Marshal(o.Content)
			require.NoError(t, err)
			b.Write(raw)
			b.WriteString("\n---\n")
		}
	}
	second := planOf(t, b.String())
	for _, s := range second.Services {
		assert.NotEqual(t, WayPort, s.Way, s.Name)
		if patches[s.Namespace+"/"+s.Name] != nil {
			assert.Equal(t, WayMove, s.Way, s.Name)
			assert.Nil(t, s.Patch)
		}
	}
	assert.Equal(t, first.Totals.References, second.Totals.References, "no reference broke, and none has moved")
}

// patched returns the API server's result of applying a patch to a Service.
func patched(t *testing.T, svc map[string]any, patch *Patch) string {
	original, err := json.Marshal(svc)
	require.NoError(t, err)
	out, err := strategicpatch.StrategicMergePatch(original, []byte(patch.merge()), &corev1.Service{})
	require.NoError(t, err)
	return string(out)
}

// TestInvalidNamesAreInNoCommand: manifests are untrusted. Other texts from a manifest are quoted in commands.
func TestInvalidNamesAreInNoCommand(t *testing.T) {
	for _, s := range planOf(t, `{apiVersion: v1, kind: Service, metadata: {name: "a b;c"}, spec: {type: ClusterIP, selector: {a: b}, ports: [{port: 80}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: "web"}, spec: {type: ClusterIP, selector: {a: b}, ports: [{name: "x'y", port: 80}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: "p", labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}`).Services {
		require.NotEmpty(t, s.Steps)
		for _, step := range s.Steps {
			switch {
			case s.Name != "web":
				assert.NotContains(t, step.Command, "a b")
			case strings.HasPrefix(step.Command, "kubectl patch"):
				assert.Contains(t, step.Command, `kubectl patch service web -n default -p '{`)
				assert.Contains(t, step.Command, `x'\''y-tls`)
			}
		}
		if s.Name != "web" {
			assert.Contains(t, s.Steps[1].What, `no command is shown: "a b;c" is not a valid name`)
		}
	}
}

// TestOptionsThatMayMeanTLS: of the options that make the webhook add no flags, only those with a name about TLS count as
// evidence of TLS.
func TestOptionsThatMayMeanTLS(t *testing.T) {
	for args, want := range map[string]Today{
		"redis-server, --port, '6379'":                  TodayPlaintext,
		"redis-server, --tls-cluster, 'yes'":            TodayDeclared,
		"redis-server, --tls-cluster, 'no'":             TodayPlaintext,
		"redis-server, --tls-port, '0'":                 TodayPlaintext,
		"redis-server, --tls-port=0":                    TodayPlaintext,
		"redis-server, --port, '0', --tls-port, '6379'": TodayDeclared,
	} {
		p := planOf(t, `{apiVersion: v1, kind: Service, metadata: {name: kv}, spec: {selector: {a: b}, ports: [{name: kv, port: 80, targetPort: 6379}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: kv, labels: {a: b}}, spec: {containers: [{name: c, image: "redis:7", command: [`+args+`]}]}}`).Services[0].Ports[0]
		assert.Equal(t, want, p.Today, args)
		assert.Equal(t, want == TodayPlaintext, p.Proxy != "", args)
		assert.Equal(t, strings.HasSuffix(args, "--port, '6379'"), strings.Contains(strings.Join(p.Notes, "\n"), "Pod/kv sets port, so it may already serve TLS"), args)
	}
}

// TestAProgramWithACertificateOfItsOwn gets no proxy, which would forward plaintext to it. A variable with a value from a
// ConfigMap may turn its TLS off, so no proxy is proposed then either.
func TestAProgramWithACertificateOfItsOwn(t *testing.T) {
	for container, want := range map[string]Today{
		`args: [argocd-server]`:                   TodayDeclared,
		`args: [argocd-server, --insecure=false]`: TodayDeclared,
		`args: [argocd-server], env: [{name: ARGOCD_SERVER_INSECURE, valueFrom: {configMapKeyRef: {name: c, key: k}}}]`: TodayDeclared,
		`args: [argocd-server], env: [{name: ARGOCD_SERVER_INSECURE, value: "true"}]`:                                   TodayPlaintext,
		`args: [argocd-server], env: [{name: ARGOCD_SERVER_INSECURE, value: ""}]`:                                       TodayDeclared,
		`args: [argocd-server, --insecure]`:                                                                             TodayPlaintext,
	} {
		ports := planOf(t, `{apiVersion: v1, kind: Service, metadata: {name: cd}, spec: {selector: {a: b}, ports: [{name: http, port: 80, targetPort: 8080}, {name: metrics, port: 8083}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: cd, labels: {a: b}}, spec: {containers: [{name: c, image: "argoproj/argocd:v3.2.0", `+container+`}]}}`).Services[0].Ports
		assert.Equal(t, []Today{want, TodayPlaintext}, []Today{ports[0].Today, ports[1].Today}, container)
		assert.Equal(t, want == TodayPlaintext, ports[0].Proxy != "", container)
	}
}

// BenchmarkPlan plans the manifests of 2000 workloads, each with a Service, a ConfigMap and an Ingress.
func BenchmarkPlan(b *testing.B) {
	text := []byte(many(2000))
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		docs, err := preview.Parse("many.yaml", text)
		require.NoError(b, err)
		assert.Len(b, OfManifests(docs, "", Options{}).Services, 2000)
	}
}
