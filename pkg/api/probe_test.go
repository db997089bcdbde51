package api

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/pkg/starttls"
)

// mail is a Service with ports of several protocols. value is its annotation, empty for none.
func mail(value string, ports ...corev1.ServicePort) *corev1.Service {
	svc := &corev1.Service{Spec: corev1.ServiceSpec{Ports: ports}}
	if value != "" {
		svc.Annotations = map[string]string{AnnotationProbe: value}
	}
	return svc
}

func TestParseProbe(t *testing.T) {
	ports := []corev1.ServicePort{{Name: "a", Port: 25}, {Name: "b", Port: 143}, {Port: 53, Protocol: corev1.ProtocolUDP}}
	tests := []struct {
		value string
		want  map[int]starttls.Protocol
		err   string // part of it
	}{
		{"25=smtp", map[int]starttls.Protocol{0: starttls.SMTP}, ""},
		{"a=smtp, 143=imap", map[int]starttls.Protocol{0: starttls.SMTP, 1: starttls.IMAP}, ""},
		{"a=tls,25=tls", map[int]starttls.Protocol{0: starttls.TLS}, ""},
		{"a=smtp,25=imap", nil, `"25=imap": the same port is also smtp`},
		{"25", nil, `"25": must be PORT=PROTOCOL, with a PROTOCOL of tls, postgres, mysql, smtp, imap, ldap, xmpp, xmpp-server, nats`},
		{"25=ftp", nil, `"25=ftp": must be PORT=PROTOCOL, with a PROTOCOL of tls,`},
		{"25=", nil, `must be PORT=PROTOCOL`},
		{"=smtp", nil, `must be PORT=PROTOCOL`},
		{"53=smtp", nil, `PORT must be the name or the number of a TCP port of this Service`},
		{"587=smtp", nil, `"587=smtp": of PORT=PROTOCOL, PORT must be the name or the number`},
		{strings.Repeat("25=smtp,", 16) + "25=smtp", nil, "17 ports: must be at most 16"},
		{"25=smtp" + strings.Repeat(" ", maxProbe), nil, "must be at most " + strconv.Itoa(maxProbe)},
	}
	for _, tt := range tests {
		t.Run(tt.value, func(t *testing.T) {
			got, err := ParseProbe(mail(tt.value, ports...))
			if tt.err != "" {
				var field *FieldError
				require.ErrorAs(t, err, &field)
				assert.Equal(t, AnnotationProbe, field.Field)
				assert.Contains(t, err.Error(), tt.err)
			}
			assert.Equal(t, tt.want, got)
		})
	}
	got, err := ParseProbe(mail("", ports...))
	assert.NoError(t, err)
	assert.Empty(t, got)
	kept := TruncateAnnotation(AnnotationProbe, strings.Repeat("x", 10*maxProbe))
	_, err = ParseProbe(mail(kept, ports...))
	assert.ErrorContains(t, err, "must be at most", "what is too long is still too long in a cache")
}

func TestProbeTargets(t *testing.T) {
	protocol := func(s string) *string { return &s }
	tests := []struct {
		name  string
		value string
		ports []corev1.ServicePort
		want  []string // a target, an equals sign and a protocol each
	}{
		{"names", "", []corev1.ServicePort{{Name: "postgres", Port: 5432}, {Name: "tcp-mysql", Port: 3306}, {Name: "http", Port: 80}}, []string{"5432=postgres", "3306=mysql", "80="}},
		{"the name of the targetPort", "", []corev1.ServicePort{{Name: "db", Port: 1, TargetPort: intstr.FromString("pgsql")}}, []string{"pgsql=postgres"}},
		{"appProtocol before the name", "", []corev1.ServicePort{{Name: "ldap", Port: 1, AppProtocol: protocol("mysql")}}, []string{"1=mysql"}},
		{"an appProtocol that says nothing", "", []corev1.ServicePort{{Name: "ldap", Port: 1, AppProtocol: protocol("tcp")}}, []string{"1=ldap"}},
		{"TLS without other words", "", []corev1.ServicePort{{Name: "imap", Port: 143}, {Name: "imaps", Port: 993}}, []string{"143=imap", "993=tls"}},
		{"a port that says TLS", "", []corev1.ServicePort{{Name: "https", Port: 443, TargetPort: intstr.FromString("ldap")}, {Name: "ldap", Port: 389}}, []string{"ldap=tls"}},
		{"a name before the number", "", []corev1.ServicePort{{Name: "postgres", Port: 443}, {Port: 8443}}, []string{"443=postgres", "8443="}},
		{"a port by its appProtocol of TLS", "", []corev1.ServicePort{{Name: "ldap", Port: 1, AppProtocol: protocol("tls")}}, []string{"1=tls"}},
		{"a proxy", "1=mysql", []corev1.ServicePort{{Name: "mysql", Port: 1, TargetPort: intstr.FromString("sc-tls-mysql")}}, []string{"sc-tls-mysql=tls"}},
		{"the annotation before the name", "postgres=tls", []corev1.ServicePort{{Name: "postgres", Port: 1}}, []string{"1=tls"}},
		{"the annotation beside TLS", "389=ldap", []corev1.ServicePort{{Name: "https", Port: 443}, {Name: "ldap", Port: 389}, {Name: "x", Port: 5}}, []string{"443=tls", "389=ldap"}},
		{"a wrong annotation", "9=ldap", []corev1.ServicePort{{Name: "smtp", Port: 25}}, []string{"25=smtp"}},
		{"UDP", "", []corev1.ServicePort{{Name: "ldap", Port: 389, Protocol: corev1.ProtocolUDP}}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, target := range ProbeTargets(mail(tt.value, tt.ports...)) {
				got = append(got, target.Target.String()+"="+string(target.Protocol))
			}
			assert.Equal(t, tt.want, got)
		})
	}
}

// A status is written by whoever makes the pod.
func TestProtocolsOfAStatus(t *testing.T) {
	said := map[string]string{"5432": "postgres", "25": "ftp", "x": "smtp", "70000": "smtp", "-1": "smtp"}
	status, ok := ParseInjectionStatus(InjectionStatus{StartTLS: said}.Format())
	require.True(t, ok)
	assert.Equal(t, map[uint16]starttls.Protocol{5432: starttls.Postgres}, status.Protocols())
	many := InjectionStatus{StartTLS: map[string]string{}}
	for i := range 100 {
		many.StartTLS[strconv.Itoa(1000+i)] = "smtp"
	}
	assert.Len(t, many.Protocols(), MaxProbes)
	assert.Nil(t, InjectionStatus{}.Protocols())
}
