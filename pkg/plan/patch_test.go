package plan

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/servingcert/servingcert/pkg/mutate/programs"
	"github.com/servingcert/servingcert/pkg/preview"
)

// TestNamesAndNumbersOfAddedPorts: the usual ones if they are free, without duplicates.
func TestNamesAndNumbersOfAddedPorts(t *testing.T) {
	long := strings.Repeat("a", maxPortName)
	for _, tt := range []struct {
		have []string // NAME:NUMBER
		want string   // of the port beside the first
	}{
		{[]string{"http:80"}, "https:443"},
		{[]string{"web:80"}, "https:443"},
		{[]string{"http-api:8080"}, "https-api:8443"},
		{[]string{"web-api:8080"}, "web-api-tls:8443"},
		{[]string{"grpc:50051"}, "grpc-tls:443"},
		{[]string{"redis:6379"}, "redis-tls:6380"},
		{[]string{"http:80", "https:443"}, "https-2:8443"},
		{[]string{"http:80", "https:443", "https-2:8443"}, "https-3:10080"},
		{[]string{"http:50000", "a:443", "b:8443"}, "https:60000"},
		{[]string{"http:55535", "a:443", "b:8443"}, "https:65535"},
		{[]string{"http:55536", "a:443", "b:8443"}, "https:10443"},
		{[]string{"http:443", "b:8443", "c:10443"}, "https:10444"},
		{[]string{"http:60000", "a:443", "b:8443", "c:10443", "d:10444"}, "https:10445"},
		{[]string{long + ":1"}, long[2:] + "-2:443"},
		{[]string{long[4:] + ":1", long[4:] + "-tls:2"}, long[4:] + "-t-2:443"},
	} {
		svc := &corev1.Service{}
		for _, p := range tt.have {
			name, number, _ := strings.Cut(p, ":")
			svc.Spec.Ports = append(svc.Spec.Ports, corev1.ServicePort{Name: name, Port: intstr.Parse(number).IntVal})
		}
		taken := takenBy(svc)
		first := svc.Spec.Ports[0]
		got := fmt.Sprint(taken.name(secureName(first.Name)), ":", taken.port(first.Port))
		assert.Equal(t, tt.want, got, "%v", tt.have)
		name, _, _ := strings.Cut(got, ":")
		assert.LessOrEqual(t, len(name), maxPortName)
	}
}

// TestLeaderOfServicesOfTheSamePods: it determines the name of the Secret.
func TestLeaderOfServicesOfTheSamePods(t *testing.T) {
	db := pod("db-0", map[string]string{"app": "db"}, 1, 2, 3)
	asks := annotated("servingcert.dev/secret-name", "mine")
	for name, tt := range map[string]struct {
		services []*corev1.Service
		want     string
	}{
		"the shortest name":           {[]*corev1.Service{selecting("abc", 1, "app=db"), selecting("zz", 2, "app=db")}, "zz-tls"},
		"the first of as short ones":  {[]*corev1.Service{selecting("zz", 1, "app=db"), selecting("aa", 2, "app=db"), selecting("mm", 3, "app=db")}, "aa-tls"},
		"one with a ClusterIP":        {[]*corev1.Service{selecting("a", 1, "app=db", headless), selecting("long", 2, "app=db")}, "long-tls"},
		"one that asks":               {[]*corev1.Service{selecting("a", 1, "app=db"), selecting("longest", 2, "app=db", headless, asks)}, "mine"},
		"one that asks, listed first": {[]*corev1.Service{selecting("long", 1, "app=db", headless, asks), selecting("z", 2, "app=db")}, "mine"},
	} {
		for _, s := range planFor(tt.services, db) {
			assert.Equal(t, tt.want, s.Secret, "%s: %s", name, s.Name)
		}
	}
}

// TestWhereTheProgramTakesNoCertificate: beside a proxy it gets none, unless an annotation requests its flags.
func TestWhereTheProgramTakesNoCertificate(t *testing.T) {
	const program = "---\n{apiVersion: v1, kind: Pod, metadata: {name: web, labels: {app: web}, annotations: {%s}}, spec: {containers: [{name: c, image: 'registry.k8s.io/metrics-server/metrics-server:v0.8.0', args: [--secure-port=9443], ports: [{name: web, containerPort: 9443}]}]}}\n"
	const service = "{apiVersion: v1, kind: Service, metadata: {name: web, annotations: {servingcert.dev/secret-name: w%s}}, spec: {selector: {app: web}, ports: [{name: a, port: 80, targetPort: %s}, {name: b, port: 443, targetPort: %s}]}}\n"
	for _, tt := range []struct {
		ofService, target, proxy, ofPod string
		want                            Today
	}{
		{"", "9443", "sc-tls-9443", "", TodayPlaintext},
		{"", "web", "sc-tls-web", "", TodayPlaintext},
		{"", "web", "sc-tls-9443", "", TodayPlaintext},
		{"", "9443", "sc-tls-9444", "", TodayTLS},
		{"", "9443", "9444", "", TodayTLS},
		{", servingcert.dev/mode: args", "9443", "sc-tls-9443", "", TodayTLS},
		{"", "9443", "sc-tls-9443", "servingcert.dev/mode: args", TodayTLS},
		{"", "9443", "sc-tls-9443", "servingcert.dev/mode: mount", TodayPlaintext},
	} {
		p := planOf(t, fmt.Sprintf(service, tt.ofService, tt.target, tt.proxy)+fmt.Sprintf(program, tt.ofPod)).Services[0].Ports[0]
		assert.Equal(t, tt.want, p.Today, "%+v", tt)
	}
}

// TestConditionServingOverridesManifests: the rotator has probed the pods.
func TestConditionServingOverridesManifests(t *testing.T) {
	const manifests = `{apiVersion: v1, kind: Service, metadata: {name: web, annotations: {servingcert.dev/secret-name: w}}, spec: {selector: {app: web}, ports: [{name: https, port: 443, targetPort: %s}]},
status: {conditions: [{type: servingcert.dev/Serving, status: "False", reason: %s}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: web, labels: {app: web}}, spec: {containers: [{name: c, image: 'registry.k8s.io/metrics-server/metrics-server:v0.8.0', args: [--secure-port=9443]}]}}
`
	for _, tt := range []struct {
		target, reason string
		want           Today
	}{{"9443", "Plaintext", TodayPlaintext}, {"9443", "Stale", TodayTLS}, {"sc-any-9443", "Plaintext", TodayAny}} {
		s := planOf(t, fmt.Sprintf(manifests, tt.target, tt.reason)).Services[0]
		assert.Equal(t, tt.reason, s.Serving)
		assert.Equal(t, tt.want, s.Ports[0].Today, "%+v", tt)
	}
}

// TestTableOfProgramsInManifests: the ConfigMap of that name in servingcert's namespace is the table.
func TestTableOfProgramsInManifests(t *testing.T) {
	const program = serviceWeb + "---\n{apiVersion: v1, kind: Pod, metadata: {name: web, labels: {app: web}}, spec: {containers: [{name: c, image: 'registry.example/mine:1', args: [x], ports: [{containerPort: 8080}]}]}}\n---\n"
	const table = "{apiVersion: v1, kind: ConfigMap, metadata: {name: %s, namespace: %s}, data: {programs.yaml: %q}}"
	const entry = "[{program: mine, images: [mine], flags: ['--cert={cert}', '--key={key}'], reload: itself}]"
	possible := func(p Plan) bool {
		n := p.Services[0].Ports[0].Native
		return n != nil && n.Possible
	}
	assert.True(t, possible(planOf(t, program+fmt.Sprintf(table, "servingcert-programs", "servingcert-system", entry))))
	assert.False(t, possible(planOf(t, program+fmt.Sprintf(table, "servingcert-programs", "default", entry))))
	assert.False(t, possible(planOf(t, program+fmt.Sprintf(table, "other", "servingcert-system", entry))))

	broken := planOf(t, program+fmt.Sprintf(table, "servingcert-programs", "servingcert-system", "programs: 1"))
	require.Len(t, broken.Unread, 1)
	assert.Contains(t, broken.Unread[0], "shop.yaml, document 3: ConfigMap servingcert-system/servingcert-programs: ")

	docs, err := preview.Parse("shop.yaml", []byte(program+fmt.Sprintf(table, "servingcert-programs", "servingcert-system", entry)))
	require.NoError(t, err)
	opts := Options{}
	opts.Programs = &programs.Table{}
	assert.False(t, possible(OfManifests(docs, "", opts)), "the table in the options counts")
}

// TestWhichPodsAreBehind: those with all labels of the selector.
func TestWhichPodsAreBehind(t *testing.T) {
	svc := selecting("web", 80, "app=web")
	svc.Spec.Selector["tier"] = "front"
	both, one := pod("both", map[string]string{"app": "web", "tier": "front"}), pod("one", map[string]string{"app": "web"})
	other := pod("elsewhere", map[string]string{"app": "web", "tier": "front"})
	other.Namespace = "other"
	assert.Equal(t, []string{"Pod/both"}, planFor([]*corev1.Service{svc}, one, both, other)["web"].Workloads)
	assert.Empty(t, planFor([]*corev1.Service{svc}, one)["web"].Workloads)

	openshift := selecting("web", 80, "app=web", annotated("service.beta.openshift.io/serving-cert-secret-name", "w"))
	for supported, want := range map[bool]string{true: "w", false: "web-tls"} {
		b := New([]*corev1.Service{openshift}, nil, Options{OpenShift: supported})
		b.AddWorkload(one)
		assert.Equal(t, want, b.Plan().Services[0].Secret)
	}
}

// TestWhatAServiceMonitorSelects: Services in its own namespace, in named ones, or in all.
func TestWhatAServiceMonitorSelects(t *testing.T) {
	manifests := "---\n" + strings.Replace(serviceWeb, "name: web}", "name: web, namespace: a, labels: {x: z}}", 1) + "---\n" + strings.Replace(serviceWeb, "name: web}", "name: web, namespace: b, labels: {x: z}}", 1)
	for from, want := range map[string]string{
		"{}": "a", "{any: true}": "a b", "{any: false}": "a", "{matchNames: []}": "a", "{matchNames: [b]}": "b", "{matchNames: [a, b, c]}": "a b",
	} {
		monitor := "---\n{apiVersion: monitoring.coreos.com/v1, kind: ServiceMonitor, metadata: {name: m, namespace: a}, spec: {namespaceSelector: " + from + ", selector: {matchLabels: {x: z}}, endpoints: [{port: metrics}]}}\n"
		var got []string
		for _, s := range planOf(t, manifests+monitor).Services {
			if len(s.References) > 0 {
				got = append(got, s.Namespace)
			}
		}
		assert.Equal(t, want, strings.Join(got, " "), from)
	}
}

// TestHowMuchIsExpanded: variables may contain others, so a text could grow exponentially.
func TestHowMuchIsExpanded(t *testing.T) {
	values := map[string]string{"A": strings.Repeat("a", maxExpanded-5), "B": "b"}
	assert.Len(t, expand("12345"+"$(A)", values), 5+4, "the original text counts")
	assert.Len(t, expand("1"+"$(A)", values), maxExpanded-4)
	assert.Len(t, expand("$(A)$(B)$(B)", map[string]string{"A": strings.Repeat("a", maxExpanded-12), "B": "b"}), maxExpanded-12+8, "variables that do not fit are not expanded")
	long := strings.Repeat("x", maxExpanded-4)
	assert.Equal(t, long+"$(B)", expand(long+"$(B)", values))
	assert.Equal(t, long[1:]+"b", expand(long[1:]+"$(B)", values))
	assert.Equal(t, "$(C) b ${B", expand("$(C) ${B} ${B", values))
}

// TestPortsKeepTheirOrder: scripts read .spec.ports[0]. Also those that get a name, and two of one number.
func TestPortsKeepTheirOrder(t *testing.T) {
	svc := &corev1.Service{}
	for _, p := range []corev1.ServicePort{
		{Name: "", Port: 9000, Protocol: corev1.ProtocolTCP}, {Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP},
		{Name: "dns-tcp", Port: 53, Protocol: corev1.ProtocolTCP}, {Name: "", Port: 80, Protocol: corev1.ProtocolTCP},
	} {
		p.TargetPort = intstr.FromInt32(p.Port)
		svc.Spec.Ports = append(svc.Spec.Ports, p)
	}
	patch := &Patch{Spec: &PatchSpec{Ports: []PatchPort{
		{Name: "http", Port: 9000, Protocol: "TCP", TargetPort: 9000}, {Name: "https", Port: 443, Protocol: "TCP", TargetPort: "sc-tls-9000"},
		{Name: "http-2", Port: 80, Protocol: "TCP", TargetPort: 80}, {Name: "https-2", Port: 8443, Protocol: "TCP", TargetPort: "sc-tls-80"},
	}}}
	patch.keepOrder(svc)
	original, err := json.Marshal(svc)
	require.NoError(t, err)
	for name, text := range map[string][]byte{"printed": []byte(patch.merge()), "applied": patch.Merge(svc)} {
		merged, err := strategicpatch.StrategicMergePatch(original, text, corev1.Service{})
		require.NoError(t, err, name)
		after := &corev1.Service{}
		require.NoError(t, json.Unmarshal(merged, after), name)
		var numbers []int32
		for _, p := range after.Spec.Ports {
			numbers = append(numbers, p.Port)
		}
		assert.Equal(t, []int32{9000, 53, 53, 80, 443, 8443}, numbers, name)
		assert.Equal(t, corev1.ProtocolUDP, after.Spec.Ports[1].Protocol, name)
		assert.NoError(t, patch.Only(svc, after), name)
	}
}
