package api

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestNeeds(t *testing.T) {
	port := func(name string, number int32, target string) corev1.ServicePort {
		p := corev1.ServicePort{Name: name, Port: number}
		if target != "" {
			p.TargetPort = intstr.FromString(target)
		}
		return p
	}
	for _, tt := range []struct {
		name  string
		value string // of AnnotationProbe
		ports []corev1.ServicePort
		want  string // the needs, with a space between them; "(…)" if they must only be declared
	}{
		{"one port", "", []corev1.ServicePort{port("web", 80, "")}, "80"},
		{"none says TLS", "", []corev1.ServicePort{port("a", 80, ""), port("b", 81, ""), port("c", 82, "x")}, "80|81|x"},
		{"two say TLS", "", []corev1.ServicePort{port("http", 80, ""), port("https", 443, "x"), port("tls-b", 444, "y")}, "x y"},
		{"one says TLS of two with one target", "", []corev1.ServicePort{port("http", 80, "x"), port("https", 443, "x")}, "x"},
		{"proxies", "", []corev1.ServicePort{port("http", 80, "sc-any-8080"), port("a", 81, "sc-tls-8080"), port("b", 82, "sc-tls-8080"), port("c", 83, "")}, "sc-any-8080 sc-tls-8080"},
		{"what the annotation lists", "80=smtp", []corev1.ServicePort{port("a", 80, ""), port("b", 81, "")}, "80"},
		{"misspelt beside TLS", "", []corev1.ServicePort{port("https", 443, ""), port("b", 81, "sc-tsl-8080")}, "443 (sc-tsl-8080)"},
		{"misspelt beside plaintext", "", []corev1.ServicePort{port("a", 80, ""), port("b", 81, "sc-tsl-8080")}, "80|sc-tsl-8080 (sc-tsl-8080)"},
		{"misspelt alone", "", []corev1.ServicePort{port("b", 81, "sc-tsl-8080")}, "sc-tsl-8080"},
		{"misspelt at a port that says TLS", "", []corev1.ServicePort{port("https", 443, "sc-tls-99999")}, "sc-tls-99999"},
		{"UDP", "", []corev1.ServicePort{{Name: "https", Port: 443, Protocol: corev1.ProtocolUDP}}, ""},
		{"no port", "", nil, ""},
		{"more ports than are read", "", make([]corev1.ServicePort, MaxPorts+1), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			needs := Needs(mail(tt.value, tt.ports...))
			for _, n := range needs {
				text := strings.ReplaceAll(n.String(), " or ", "|")
				if n.Declared {
					text = "(" + text + ")"
				}
				got = append(got, text)
			}
			assert.Equal(t, tt.want, strings.Join(got, " "))
			assert.NotEmpty(t, needs)
		})
	}
}

func TestNeedsHash(t *testing.T) {
	a := mail("", corev1.ServicePort{Name: "https", Port: 443}, corev1.ServicePort{Name: "http", Port: 80})
	before := NeedsHash(a)
	a.Spec.Ports[1].Port, a.Labels = 81, map[string]string{"a": "b"}
	assert.Equal(t, before, NeedsHash(a), "what is not to be served with TLS does not count")
	a.Spec.Ports[1].TargetPort = intstr.FromString("sc-tls-80")
	assert.NotEqual(t, before, NeedsHash(a))
}
