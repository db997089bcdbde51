package choose

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/pkg/api"
)

// TestDrift: what a pod's proxy connects to, beside what that of a new pod would.
func TestDrift(t *testing.T) {
	web := func(tls ...int32) *corev1.Service {
		svc := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Annotations: map[string]string{api.AnnotationSecretName: "web-tls"}},
			Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080)}}},
		}
		for _, port := range tls {
			svc.Spec.Ports = append(svc.Spec.Ports, corev1.ServicePort{Name: fmt.Sprint("https-", port), Port: port, TargetPort: intstr.FromString("sc-tls-8080")})
		}
		return svc
	}
	const plain, tls, other = "--connect=127.1.0.1:80=web.shop.svc:443", "--connect=127.1.0.1:443=web.shop.svc:443", "--connect=127.1.0.2:80=db.data.svc:443"
	always := corev1.ContainerRestartPolicyAlways
	for name, tt := range map[string]struct {
		connects  []string // of the proxy
		listed    string
		services  []*corev1.Service
		elsewhere bool // other namespaces can be read
		want      []string
	}{
		"as it would be now":           {[]string{plain, tls}, "web", []*corev1.Service{web(443)}, true, nil},
		"neither":                      {nil, "", []*corev1.Service{web(443)}, true, nil},
		"left out then and now":        {nil, "db", []*corev1.Service{web(443)}, true, nil},
		"another address":              {[]string{"--connect=127.1.0.7:80=web.shop.svc:443", "--connect=127.1.0.7:443=web.shop.svc:443"}, "web", []*corev1.Service{web(443)}, true, nil},
		"left out when it was created": {nil, "web", []*corev1.Service{web(443)}, true, []string{"calls to web.shop leave the pod as its programs make them"}},
		"the ports have changed": {[]string{plain, tls}, "web", []*corev1.Service{web(8443)}, true,
			[]string{"the proxy connects to web.shop at ports 80 (TLS 443), 443, and that of a new pod to 80 (TLS 8443), 8443; calls of ports 80, 443 fail, because the TLS port is gone; calls of port 8443 fail in the pod, where nothing listens for them"}},
		"another TLS port, and the one that is called": {[]string{plain, tls}, "web", []*corev1.Service{web(443, 8443)}, true,
			[]string{"the proxy connects to web.shop at ports 80 (TLS 443), 443, and that of a new pod to 80 (TLS 443), 443, 8443; calls of port 8443 fail in the pod, where nothing listens for them"}},
		"a port is gone, and its TLS port is there": {[]string{plain, tls, "--connect=127.1.0.1:81=web.shop.svc:443"}, "web", []*corev1.Service{web(443)}, true,
			[]string{"the proxy connects to web.shop at ports 80 (TLS 443), 81 (TLS 443), 443, and that of a new pod to 80 (TLS 443), 443"}},
		"left out now, without a TLS port": {[]string{plain, tls}, "web", []*corev1.Service{web()}, true,
			[]string{"the proxy takes the calls to web.shop, and that of a new pod would not: no TLS port belongs to port 80: add one to the Service, or list the ports that are meant, as SERVICE:PORT: the others are then closed for this pod under the Service's names; calls of ports 80, 443 fail, because the TLS port is gone"}},
		"left out now": {[]string{plain, tls}, "web", nil, true,
			[]string{"the proxy takes the calls to web.shop, and that of a new pod would not: no Service of that name requests a certificate: correct the name, or give the Service a TLS port first; for one of type ExternalName, let the clients use TLS themselves"}},
		"not listed now": {[]string{plain, tls}, "", nil, true,
			[]string{"the proxy takes the calls to web.shop, and that of a new pod would not: no annotation of the pod lists it any more"}},
		"another namespace": {[]string{plain, tls, other}, "web, db.data", []*corev1.Service{web(443)}, true,
			[]string{"the proxy takes the calls to db.data, and that of a new pod would not: no Service of that name requests a certificate: correct the name, or give the Service a TLS port first; for one of type ExternalName, let the clients use TLS themselves"}},
		"another namespace that is not read": {[]string{plain, tls, other}, "web, db.data", []*corev1.Service{web(443)}, false, nil},
		"an annotation that is wrong":        {[]string{plain, tls}, "Web", nil, true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Annotations: map[string]string{}}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}}}
			if tt.connects != nil {
				pod.Spec.InitContainers = []corev1.Container{{Name: api.ProxyContainer, RestartPolicy: &always, Args: tt.connects}}
			}
			if tt.listed != "" {
				pod.Annotations[api.AnnotationConnect] = tt.listed
			}
			known := Known{Services: tt.services}
			if tt.elsewhere {
				known.Elsewhere = func(string, string) *corev1.Service { return nil }
			}
			assert.Equal(t, tt.want, drift(pod, known))
		})
	}
}

// drift returns the differences as text.
func drift(pod *corev1.Pod, known Known) (out []string) {
	for _, d := range Drift(pod, known) {
		out = append(out, d.String())
	}
	return out
}

// TestPodsThatAreOlderThanTheTrustDomain: what their proxies lack that those of new pods have.
func TestPodsThatAreOlderThanTheTrustDomain(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	const connects, listens, other = "--connect=127.1.0.1:443=web.shop.svc:443", "--listen=sc-tls-8080=8443:8080", "--listen=sc-tls-9090=9443:9090"
	const noIdentity = "the proxy shows no identity: servers whose Services list clients refuse its calls"
	const open = "the proxy admits all clients at port sc-tls-8080, which a Service guards: it has no list and no roots to verify them"
	for name, tt := range map[string]struct {
		args    []string
		clients string // of the Service; "-": none
		domain  string // trust domain
		want    []string
	}{
		"before there are identities": {[]string{connects, listens}, "shop/cart", "", nil},
		"older":                       {[]string{connects, listens, other}, "shop/cart", "example.com", []string{noIdentity, open}},
		"no Service guards":           {[]string{connects, listens}, "-", "example.com", []string{noIdentity}},
		"a list that is not valid":    {[]string{listens}, "?", "example.com", []string{open}},
		"younger":                     {[]string{connects, listens, "--identity=/a", "--client-ca=/b", "--clients=/c"}, "shop/cart", "example.com", nil},
		"only serves":                 {[]string{listens, "--client-ca=/b", "--clients=/c"}, "shop/cart", "example.com", nil},
		"no proxy":                    {nil, "shop/cart", "example.com", nil},
	} {
		t.Run(name, func(t *testing.T) {
			web := &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Annotations: map[string]string{api.AnnotationSecretName: "web-tls"}},
				Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Name: "https", Port: 443, TargetPort: intstr.FromString("sc-tls-8080")}}},
			}
			if tt.clients != "-" {
				web.Annotations[api.AnnotationClients] = tt.clients
			}
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Labels: map[string]string{"app": "web"}, Annotations: map[string]string{}}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}}}
			if tt.args != nil {
				pod.Spec.InitContainers = []corev1.Container{{Name: api.ProxyContainer, RestartPolicy: &always, Args: tt.args}}
			}
			for _, arg := range tt.args {
				if arg == connects {
					pod.Annotations[api.AnnotationConnect] = "web"
				}
			}
			known := Known{Services: []*corev1.Service{web}, Config: Config{TrustDomain: tt.domain}}
			assert.Equal(t, tt.want, drift(pod, known))
		})
	}
}

// TestDriftOfPodsWithoutProxy: a new pod would have none either, unless a proxy connects.
func TestDriftOfPodsWithoutProxy(t *testing.T) {
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Annotations: map[string]string{api.AnnotationSecretName: "web-tls"}},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "https", Port: 443, TargetPort: intstr.FromString("sc-tls-8080")}}},
	}
	always := corev1.ContainerRestartPolicyAlways
	for note, want := range map[string]int{"": 1, "NotConnected: x": 1, "ProxyNoImage: x": 0, "ProxyNameTaken: x": 0} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Annotations: map[string]string{
			api.AnnotationConnect: "web", api.AnnotationStatus: api.InjectionStatus{Reason: "NotConcerned", Notes: []string{"x: y", note}}.Format(),
		}}}
		assert.Len(t, Drift(pod, Known{Services: []*corev1.Service{svc}}), want, note)
		pod.Spec.InitContainers = []corev1.Container{{Name: api.ProxyContainer, RestartPolicy: &always, Args: []string{"--connect=127.1.0.1:444=web.shop.svc:444"}}}
		assert.Len(t, Drift(pod, Known{Services: []*corev1.Service{svc}}), 1, note)
	}
}
