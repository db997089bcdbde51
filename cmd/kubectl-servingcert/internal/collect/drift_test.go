package collect

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/pkg/api"
)

// TestPodsThatConnectToOtherPorts: they are compared with the Services of their own namespace and of others.
func TestPodsThatConnectToOtherPorts(t *testing.T) {
	optedIn := func(name string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{api.LabelInject: api.InjectEnabled}}}
	}
	service := func(namespace, name string, tls int32) *corev1.Service {
		return &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: map[string]string{api.AnnotationSecretName: name + "-tls"}},
			Spec:       corev1.ServiceSpec{ClusterIP: "10.0.0.1", Ports: []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080)}, {Name: "https", Port: tls, TargetPort: intstr.FromString("sc-tls-8080")}}},
		}
	}
	always := corev1.ContainerRestartPolicyAlways
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart", Annotations: map[string]string{api.AnnotationConnect: "web, db.data"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}, InitContainers: []corev1.Container{{Name: api.ProxyContainer, RestartPolicy: &always, Args: []string{
			"--connect=127.1.0.1:80=web.shop.svc:443", "--connect=127.1.0.1:443=web.shop.svc:443", "--connect=127.1.0.2:80=db.data.svc:443", "--connect=127.1.0.2:443=db.data.svc:443",
		}}}},
	}
	const web = "the proxy connects to web.shop at ports 80 (TLS 443), 443, and that of a new pod to 80 (TLS 8443), 8443; calls of ports 80, 443 fail, because the TLS port is gone; calls of port 8443 fail in the pod, where nothing listens for them"
	for name, tt := range map[string]struct {
		namespace, forbidden string
		web, db              int32
		want                 []string
		failures             int
	}{
		"as new pods would":                       {"", "", 443, 443, nil, 0},
		"other ports":                             {"", "", 8443, 443, []string{web}, 0},
		"of another namespace":                    {"", "", 443, 444, []string{"the proxy connects to db.data at ports 80 (TLS 443), 443, and that of a new pod to 80 (TLS 444), 444; calls of ports 80, 443 fail, because the TLS port is gone; calls of port 444 fail in the pod, where nothing listens for them"}, 0},
		"of another, from one namespace":          {"shop", "", 443, 444, []string{"the proxy connects to db.data at ports 80 (TLS 443), 443, and that of a new pod to 80 (TLS 444), 444; calls of ports 80, 443 fail, because the TLS port is gone; calls of port 444 fail in the pod, where nothing listens for them"}, 0},
		"of one that this user may not read":      {"shop", "services in data", 8443, 444, nil, 1},
		"of one namespace, as new pods would too": {"shop", "", 443, 443, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			g := gathererOf(Options{System: "sys", Namespace: tt.namespace}, tt.forbidden,
				[]runtime.Object{optedIn("shop"), optedIn("data"), service("shop", "web", tt.web), service("data", "db", tt.db), pod}...)
			_, err := g.namespaces(t.Context())
			require.NoError(t, err)
			assert.Len(t, g.facts.Failures, tt.failures)
			var got []string
			for _, n := range g.facts.Namespaces {
				if n.Name == "shop" {
					got = n.Drifted["Pod cart"].What
				}
			}
			assert.Equal(t, tt.want, got)
		})
	}
}
