package plan

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/yaml"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/preview"
)

// servers are Services web, db and dns of namespace shop, and api of namespace data, with their pods.
const servers = `
{apiVersion: v1, kind: Service, metadata: {name: web, namespace: shop}, spec: {selector: {app: web}, ports: [{name: http, port: 80, targetPort: 8080}]}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop}, spec: {template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c, image: registry.example/web, ports: [{containerPort: 8080}]}]}}}}
---
{apiVersion: v1, kind: Service, metadata: {name: api, namespace: data}, spec: {selector: {app: api}, ports: [{port: 8000}]}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: api, namespace: data}, spec: {template: {metadata: {labels: {app: api}}, spec: {containers: [{name: c, image: registry.example/api, ports: [{containerPort: 8000}]}]}}}}
---
{apiVersion: v1, kind: Service, metadata: {name: dns, namespace: shop}, spec: {selector: {app: dns}, ports: [{name: http, port: 8181}, {name: metrics, port: 9153}, {name: dns, port: 53, protocol: UDP}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: dns, namespace: shop, labels: {app: dns}}, spec: {containers: [{name: c, image: registry.example/dns, ports: [{containerPort: 8181}, {containerPort: 9153}]}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: listed, namespace: shop, annotations: {servingcert.dev/clients: shop/other}}, spec: {selector: {app: listed}, ports: [{name: http, port: 80, targetPort: 8080}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: listed, namespace: shop, labels: {app: listed}}, spec: {containers: [{name: c, image: registry.example/listed, ports: [{containerPort: 8080}]}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: peers, namespace: shop}, spec: {clusterIP: None, selector: {app: peers}, ports: [{port: 7000}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: peers, namespace: shop, labels: {app: peers}}, spec: {containers: [{name: c, image: registry.example/peers, ports: [{containerPort: 7000}]}]}}
`

// caller returns Deployment shop/cart with these arguments, annotations and further fields of its pods, in flow style.
func caller(args, annotations, more string) string {
	return fmt.Sprintf("---\n{apiVersion: apps/v1, kind: Deployment, metadata: {name: cart, namespace: shop}, spec: {template: {metadata: {labels: {app: cart}, annotations: {%s}}, spec: {%s containers: [{name: c, image: registry.example/cart, args: [%s]}]}}}}\n", annotations, more, args)
}

// clientOf returns the plan of a client.
func clientOf(t *testing.T, p Plan, workload string) Client {
	t.Helper()
	for _, c := range p.Clients {
		if c.Namespace+"/"+c.Workload == workload {
			return c
		}
	}
	require.Fail(t, "no client "+workload, "%v", p.Clients)
	return Client{}
}

// TestWhatIsConnected: which Services are added to the annotation of a client, and which have to be changed by hand.
func TestWhatIsConnected(t *testing.T) {
	for name, tt := range map[string]struct {
		args, annotations, more string
		connect                 string
		left                    string // of the Service, and the beginning of why
		note                    string
	}{
		"one Service":                     {args: "'http://web'", connect: "web"},
		"by other names":                  {args: "'http://web.shop.svc', 'web.shop.svc.cluster.local:80'", connect: "web"},
		"of another namespace":            {args: "'http://api.data:8000', 'http://web'", connect: "api.data, web"},
		"it speaks TLS":                   {args: "'https://web'"},
		"TLS to a plaintext port":         {args: "'http://web', 'https://web:80'", left: "shop/web: its programs speak TLS to port 80, where the plan sees plaintext"},
		"PostgreSQL with TLS":             {args: "'postgres://u@web:80/x?sslmode=verify-full'"},
		"and without":                     {args: "'postgres://u@web:80/x?sslmode=require', 'postgres://u@web:80/y'", left: "shop/web: its programs request TLS within the protocol"},
		"PostgreSQL that prefers it":      {args: "'postgres://u@web:80/x?sslmode=prefer'", connect: "web"},
		"a name that no hosts file has":   {args: "'http://web.shop.svc.:80'", left: "shop/web: its programs do not call it by a name that a hosts file can have"},
		"a port that is its own too":      {args: "'http://api.data:8000', --listen=:8000", left: "data/api: port 8000 is used in the pod itself"},
		"the host's network":              {args: "'http://web'", more: "hostNetwork: true,", left: "shop/web: Deployment/cart uses the host network"},
		"Windows":                         {args: "'http://web'", more: "nodeSelector: {kubernetes.io/os: windows},", left: "shop/web: Deployment/cart runs on Windows"},
		"an entry of its hosts file":      {args: "'http://web'", more: "hostAliases: [{ip: 10.0.0.1, hostnames: [web]}],", left: "shop/web: hostAliases of the pod have the name web"},
		"it is not listed":                {args: "'http://listed'", left: "shop/listed: annotation servingcert.dev/clients of the Service does not list shop/default"},
		"its owner wants none":            {args: "'http://web'", annotations: "servingcert.dev/connect: none", left: `shop/web: annotation servingcert.dev/connect is "none"`},
		"a headless Service":              {args: "'http://peers:7000', 'http://web'", connect: "web", left: "shop/peers: it is headless"},
		"beside a port without TLS":       {args: "'http://dns:8181'", connect: "dns:8181", note: "all other ports of shop/dns are then closed"},
		"two ports of them":               {args: "'http://dns:8181', 'http://dns:9153'", connect: "dns:8181, dns:9153", note: "all other ports of shop/dns are then closed"},
		"and a port that is not known":    {args: "'http://dns:8181'", more: "initContainers: [{name: i, image: registry.example/i, env: [{name: DNS_HOST, value: dns}]}],", left: "shop/dns: it has ports of other protocols than TCP"},
		"beside those that it has":        {args: "'http://web', 'http://api.data:8000'", annotations: `servingcert.dev/connect: "api.data"`, connect: "api.data, web"},
		"all that it has":                 {args: "'http://web'", annotations: `servingcert.dev/connect: "web.shop"`},
		"each Service of the namespace":   {args: "'http://web'", annotations: `servingcert.dev/connect: "*"`},
		"one that the webhook leaves out": {args: "'http://peers:7000'", annotations: `servingcert.dev/connect: "peers"`, left: "shop/peers: it is headless"},
		"an annotation that is wrong":     {args: "'http://web'", annotations: `servingcert.dev/connect: "Web"`, left: "shop/web: servingcert.dev/connect"},
		"a port that it does not have":    {args: "'http://web'", annotations: `servingcert.dev/connect: "web:81"`, left: "shop/web: it has no TCP port 81"},
		"a container with the proxy's name": {
			args: "'http://web'", more: "initContainers: [{name: servingcert-proxy, image: registry.example/i}],", left: "shop/web: the pod has a container servingcert-proxy",
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := planOf(t, servers+caller(tt.args, tt.annotations, tt.more))
			if tt.connect == "" && tt.left == "" {
				for _, c := range p.Clients {
					assert.Zero(t, c.Wave, c)
				}
				assert.Zero(t, p.Totals.References)
				return
			}
			c := clientOf(t, p, "shop/Deployment/cart")
			assert.Equal(t, tt.connect, c.Connect)
			assert.Equal(t, tt.connect != "", c.Wave > 1, "after the Services")
			if tt.left == "" {
				assert.Empty(t, c.Left)
			} else {
				require.Len(t, c.Left, 1)
				assert.Contains(t, c.Left[0].Service+": "+c.Left[0].Why, tt.left)
			}
			if tt.note != "" {
				require.NotEmpty(t, c.Notes)
				assert.Contains(t, c.Notes[0], tt.note)
			}
		})
	}
}

// TestReferencesOfPrograms: each one is moved, or it is said why not.
func TestReferencesOfPrograms(t *testing.T) {
	const config = `---
{apiVersion: v1, kind: ConfigMap, metadata: {name: %[1]s, namespace: shop}, data: {url: "http://web"}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: %[1]s, namespace: shop}, spec: {template: {metadata: {labels: {app: %[1]s}}, spec: {%[2]s containers: [{name: c, image: i, envFrom: [{configMapRef: {name: %[1]s}}]}]}}}}
`
	p := planOf(t, servers+caller("'http://web', 'http://web:81', 'http://web.shop.svc.cluster.local.'", "", "")+
		fmt.Sprintf(config, "a", "")+fmt.Sprintf(config, "b", "hostNetwork: true,")+
		"---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: unused, namespace: shop}, data: {url: 'http://web'}}\n"+
		"---\n{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: web, namespace: shop}, spec: {defaultBackend: {service: {name: web, port: {number: 80}}}}}\n")
	got := map[string]string{}
	for _, s := range p.Services {
		for _, r := range s.References {
			got[r.Kind+"/"+r.Name+" "+r.Address] = string(r.Moves) + " " + r.ByHand
		}
	}
	assert.Equal(t, map[string]string{
		"Deployment/cart http://web":                         "connect ",
		"Deployment/cart http://web:81":                      "by hand the Service has no port 81",
		"Deployment/cart http://web.shop.svc.cluster.local.": "by hand Deployment/cart: the hosts file of a pod has no name web.shop.svc.cluster.local.",
		"ConfigMap/a http://web":                             "connect ",
		"ConfigMap/b http://web":                             "by hand Deployment/b: Deployment/b uses the host network, whose loopback interface is shared",
		"ConfigMap/unused http://web":                        "by hand no known workload uses the ConfigMap",
		"Ingress/web web:80":                                 " ",
	}, got)
	assert.Equal(t, 7, p.Totals.References)
	assert.Equal(t, 6, p.Totals.Programs)
	assert.Equal(t, 2, p.Totals.Connect)
}

// TestClientsFollowTheirServices: and are rolled out with their own Services.
func TestClientsFollowTheirServices(t *testing.T) {
	const front = `---
{apiVersion: v1, kind: Service, metadata: {name: front, namespace: shop}, spec: {selector: {app: front}, ports: [{port: 3000}]}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: front, namespace: shop}, spec: {template: {metadata: {labels: {app: front}}, spec: {containers: [{name: c, image: i, ports: [{containerPort: 3000}], args: ['http://web', 'http://front:3000']}]}}}}
`
	p := planOf(t, servers+front+caller("'http://front:3000'", "", ""))
	waves := map[string]int{}
	for _, s := range p.Services {
		waves[s.Name] = s.Wave
	}
	assert.Equal(t, 1, waves["web"])
	assert.Equal(t, 2, waves["front"])
	assert.Equal(t, 3, clientOf(t, p, "shop/Deployment/cart").Wave)
	both := clientOf(t, p, "shop/Deployment/front")
	assert.Equal(t, "web", both.Connect)
	assert.Equal(t, 2, both.Wave, "once, with the port of its own Service")
	require.Len(t, both.Left, 1, "it listens on the port of its own Service")

	only, err := p.Only([]string{"shop/front"})
	require.NoError(t, err)
	assert.Equal(t, "front", clientOf(t, only, "shop/Deployment/cart").Connect)
	assert.Empty(t, clientOf(t, only, "shop/Deployment/front").Connect, "the plan of web is another one")
}

// TestClientSteps: the commands set the annotation and take it back, and the manifest is complete.
func TestClientSteps(t *testing.T) {
	for _, before := range []string{"", "web"} {
		annotations := ""
		if before != "" {
			annotations = "servingcert.dev/connect: " + before
		}
		manifest := caller("'http://web', 'http://api.data:8000'", annotations, "")
		c := clientOf(t, planOf(t, servers+manifest), "shop/Deployment/cart")
		require.NotEmpty(t, c.Connect)
		var object map[string]any
		require.NoError(t, yaml.Unmarshal([]byte(strings.TrimPrefix(manifest, "---\n")), &object))
		want := c.Complete()
		var commands []string
		for _, s := range c.Steps {
			commands = append(commands, s.Command)
		}
		require.Len(t, commands, 4)
		assert.Equal(t, "kubectl label namespace shop servingcert.dev/inject=enabled", commands[0])
		set := c.Steps[1]
		assert.True(t, strings.HasPrefix(set.Command, "kubectl patch deployment cart -n shop -p '"), set.Command)
		after := merged(t, object, set.Command)
		assert.Equal(t, want, after)
		assert.Equal(t, c.Back(), set.Back)
		back := merged(t, after, set.Back)
		assert.Equal(t, before, texts(at(back, "spec", "template", "metadata"), "annotations")[api.AnnotationConnect])
	}
	cron := planOf(t, servers+"---\n{apiVersion: batch/v1, kind: CronJob, metadata: {name: j, namespace: shop}, spec: {jobTemplate: {spec: {template: {spec: {containers: [{name: c, image: i, args: ['http://web']}]}}}}}}\n")
	c := clientOf(t, cron, "shop/CronJob/j")
	assert.Equal(t, `kubectl patch cronjob j -n shop -p '{"spec":{"jobTemplate":{"spec":{"template":{"metadata":{"annotations":{"servingcert.dev/connect":"web"}}}}}}}'`, c.Steps[1].Command)
	assert.Equal(t, map[string]any{"servingcert.dev/connect": "web"}, at(c.Complete(), "spec", "jobTemplate", "spec", "template", "metadata")["annotations"])
}

// merged applies the patch of a command to a Deployment.
func merged(t *testing.T, object map[string]any, command string) map[string]any {
	t.Helper()
	_, patch, ok := strings.Cut(command, " -p '")
	require.True(t, ok, command)
	in, err := json.Marshal(object)
	require.NoError(t, err)
	text, err := strategicpatch.StrategicMergePatch(in, []byte(strings.TrimSuffix(patch, "'")), appsv1.Deployment{})
	require.NoError(t, err)
	var out map[string]any
	require.NoError(t, json.Unmarshal(text, &out))
	return out
}

// TestNoClientIsConnectedToWhatWasNotSeen: the proxy never falls back to plaintext, so its calls would fail.
func TestNoClientIsConnectedToWhatWasNotSeen(t *testing.T) {
	seen := func(change func(*corev1.Service)) *corev1.Service {
		svc := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Annotations: map[string]string{api.AnnotationSecretName: "web-tls"}},
			Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{
				{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080)}, {Name: "https", Port: 443, TargetPort: intstr.FromString("sc-tls-8080")},
			}},
		}
		svc.Status.Conditions = state.Say(metav1.Condition{Type: api.ConditionServing, Reason: api.ServingCurrent}, state.Serving{Ports: api.NeedsHash(svc)}).Both()
		change(svc)
		return svc
	}
	server := pod("web", map[string]string{"app": "web"}, 8080)
	server.Kind = "Deployment"
	cart := pod("cart", map[string]string{"app": "cart"})
	cart.Kind, cart.Pod.Spec.Containers[0].Args = "Deployment", []string{"http://web"}
	for name, tt := range map[string]struct {
		change  func(*corev1.Service)
		connect string
	}{
		"it was seen":            {func(*corev1.Service) {}, "web"},
		"not yet":                {func(svc *corev1.Service) { svc.Status.Conditions = nil }, ""},
		"it is not reached":      {func(svc *corev1.Service) { svc.Status.Conditions[0].Reason = api.ServingUnreachable }, ""},
		"its ports have changed": {func(svc *corev1.Service) { svc.Spec.Ports[1].TargetPort = intstr.FromString("sc-any-8080") }, ""},
	} {
		b := New([]*corev1.Service{seen(tt.change)}, nil, Options{Live: true})
		b.AddWorkload(server)
		b.AddWorkload(cart)
		c := clientOf(t, b.Plan(), "shop/Deployment/cart")
		assert.Equal(t, tt.connect, c.Connect, name)
		if tt.connect == "" {
			require.Len(t, c.Left, 1, name)
			assert.Contains(t, c.Left[0].Why, "is not known to serve TLS", name)
		}
	}
}

// TestOldPodsOfAClient: pods that are older than the annotation still speak plaintext.
func TestOldPodsOfAClient(t *testing.T) {
	svc := selecting("web", 8080, "app=web")
	server := pod("web", map[string]string{"app": "web"}, 8080)
	cart := pod("cart", map[string]string{"app": "cart"})
	cart.Kind, cart.Pod.Spec.Containers[0].Args = "Deployment", []string{"http://web:8080"}
	cart.Pod.Annotations = map[string]string{api.AnnotationConnect: "web"}
	build := func(pods ...*corev1.Pod) Plan {
		b := New([]*corev1.Service{svc}, nil, Options{})
		b.AddWorkload(server)
		b.AddWorkload(cart)
		for _, p := range pods {
			b.AddPod("Deployment", "cart", p)
		}
		return b.Plan()
	}
	always := corev1.ContainerRestartPolicyAlways
	old, connected := cart.Pod.DeepCopy(), cart.Pod.DeepCopy()
	connected.Spec.InitContainers = []corev1.Container{{Name: api.ProxyContainer, RestartPolicy: &always, Args: []string{"--connect=127.1.0.1:8080=web.shop.svc:8443"}}}

	p := build(connected, connected)
	assert.Zero(t, p.Clients[0].Wave)
	assert.Equal(t, []string{"shop/web"}, p.Clients[0].Already)
	assert.Zero(t, p.Totals.References, "the proxy makes the call")
	p = build(connected, old)
	assert.True(t, p.Clients[0].RollOut)
	assert.Empty(t, p.Clients[0].Connect)
	assert.Equal(t, "kubectl rollout restart deployment/cart -n shop", p.Clients[0].Steps[1].Command)
	assert.Equal(t, 1, p.Totals.References)
}

// TestCompleteClientOfACluster: the manifest of an object in a cluster has the annotation more, and nothing that the API server fills in.
func TestCompleteClientOfACluster(t *testing.T) {
	replicas := int32(3)
	cart := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "cart", UID: "u", ResourceVersion: "7", Generation: 2, Labels: map[string]string{"team": "a", "argocd.argoproj.io/instance": "x"},
			Annotations: map[string]string{"note": "kept", corev1.LastAppliedConfigAnnotation: "{}", "deployment.kubernetes.io/revision": "4"},
		},
		Spec: appsv1.DeploymentSpec{Replicas: &replicas, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "cart"}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "registry.example/cart", Args: []string{"http://web:8080"}}}},
		}},
		Status: appsv1.DeploymentStatus{Replicas: 3},
	}
	b := New([]*corev1.Service{selecting("web", 8080, "app=web")}, nil, Options{})
	b.AddWorkload(pod("web", map[string]string{"app": "web"}, 8080))
	b.AddWorkload(Workload{Kind: "Deployment", Namespace: "shop", Name: "cart", Pod: &corev1.Pod{ObjectMeta: cart.Spec.Template.ObjectMeta, Spec: cart.Spec.Template.Spec}, Object: cart, Template: []any{"spec", "template"}})
	c := clientOf(t, b.Plan(), "shop/Deployment/cart")
	assert.Equal(t, "Argo CD", c.ManagedBy)
	content := c.Complete()
	assert.NotContains(t, content, "status")
	got := &appsv1.Deployment{}
	require.NoError(t, preview.Convert(content, got))
	want := cart.DeepCopy()
	want.TypeMeta = metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}
	want.ObjectMeta = metav1.ObjectMeta{Namespace: "shop", Name: "cart", Labels: want.Labels, Annotations: map[string]string{"note": "kept"}}
	want.Spec.Template.Annotations = map[string]string{api.AnnotationConnect: "web"}
	want.Status = appsv1.DeploymentStatus{}
	assert.Equal(t, want, got)
	assert.Equal(t, "4", cart.Annotations["deployment.kubernetes.io/revision"], "the object itself stays")
}
