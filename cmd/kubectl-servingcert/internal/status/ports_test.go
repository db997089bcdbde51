package status

import (
	"crypto/x509"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
	"github.com/servingcert/servingcert/pkg/starttls"
	"github.com/servingcert/servingcert/test/rotatortest"
)

func readyPod(name string, changes ...func(*corev1.Pod)) corev1.Pod {
	pod := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Ports: []corev1.ContainerPort{{Name: "web", ContainerPort: 8443}}}}},
		Status:     corev1.PodStatus{PodIP: "10.0.0.1", Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
	for _, change := range changes {
		change(&pod)
	}
	return pod
}

// TestPodPorts: each port of a ready pod to which a Service leads, once.
func TestPodPorts(t *testing.T) {
	service := func(name string, ports ...corev1.ServicePort) corev1.Service {
		return corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"}, Ports: ports}}
	}
	none := service("none", corev1.ServicePort{Port: 1})
	none.Spec.Selector = nil
	named := service("named", corev1.ServicePort{Port: 1})
	named.Spec.Type = corev1.ServiceTypeExternalName
	elsewhere := service("elsewhere", corev1.ServicePort{Port: 1})
	elsewhere.Namespace = "other"
	services := []corev1.Service{
		service("web", corev1.ServicePort{Name: "https", Port: 443, TargetPort: intstr.FromString("web")}, corev1.ServicePort{Name: "postgres", Port: 5432}),
		service("alias", corev1.ServicePort{Port: 80, TargetPort: intstr.FromInt32(8443)}, corev1.ServicePort{Port: 53, Protocol: corev1.ProtocolUDP}, corev1.ServicePort{Port: 9, TargetPort: intstr.FromString("missing")}),
		none, elsewhere, named,
	}
	starting := readyPod("starting", func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse })
	ending := readyPod("ending", func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} })
	ports, unseen := PodPorts(services, []corev1.Pod{readyPod("b"), starting, ending, readyPod("a")}, "cluster.local")
	require.Len(t, ports, 4)
	assert.Equal(t, Unseen{PodsNotReady: 2, ServicesWithoutSelector: 1}, unseen)
	var got []string
	for _, p := range ports {
		got = append(got, p.Pod)
	}
	assert.Equal(t, []string{"a", "a", "b", "b"}, got)
	assert.Equal(t, uint16(5432), ports[0].Port)
	assert.Equal(t, starttls.Postgres, ports[0].Protocol)
	assert.Equal(t, []string{"alias:80", "web:443"}, ports[1].Services)
	assert.Equal(t, "Pod/a", ports[1].Workload)
	assert.Equal(t, starttls.TLS, ports[1].Protocol)
}

// TestNamesOfEachService: each Service is judged by itself, with the names that its annotation lists.
func TestNamesOfEachService(t *testing.T) {
	ca := rotatortest.NewCA(t, 1, noon)
	for name, tt := range map[string]struct {
		extra  string // of Service web
		leaf   []string
		missed []string
	}{
		"of both":                 {"", []string{"web.shop.svc", "alias.shop.svc"}, nil},
		"of one":                  {"", []string{"web.shop.svc"}, []string{"alias"}},
		"of none":                 {"", []string{"other.shop.svc"}, []string{"alias", "web"}},
		"in the cluster's domain": {"", []string{"web.shop.svc.k8s.example", "alias.shop.svc.k8s.example"}, nil},
		"a listed one":            {"www.example.com", []string{"www.example.com", "alias"}, nil},
		"not all that are listed": {"www.example.com, *.example.org", []string{"www.example.com", "web.shop.svc", "alias"}, []string{"web"}},
		"a listed wildcard":       {"www.example.com, *.example.org", []string{"*.example.com", "*.example.org", "alias"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			web := selecting("web", 8443)
			if tt.extra != "" {
				web.Annotations = map[string]string{api.AnnotationExtraDNSNames: tt.extra}
			}
			ports, _ := PodPorts([]corev1.Service{selecting("alias", 8443), web, selecting("metrics", 9090)}, []corev1.Pod{readyPod("a")}, "k8s.example")
			require.Len(t, ports, 2)
			s := ports[0].Served(probe.Outcome{Kind: probe.TLS, Chain: []*x509.Certificate{ca.Issue(t, noon, tt.leaf...).Leaf}}, nil, Roots{}, noon)
			assert.Equal(t, tt.missed, s.NotNamed)
			assert.Equal(t, tt.missed != nil, s.Has([]string{ProblemNames}))
		})
	}
}

// TestRenewedHere: the signer draws when it renews, which may be after another issuer should have done so.
func TestRenewedHere(t *testing.T) {
	ca := rotatortest.NewCA(t, 1, noon)
	leaf := ca.Issue(t, noon, "web.shop.svc", "alias.shop.svc").Leaf
	at := leaf.NotAfter.Add(-pki.Lifetime(leaf) / 8)
	for name, tt := range map[string]struct {
		annotations map[string]string
		want        []string
	}{
		"nothing is requested":  {nil, []string{ProblemOverdue}},
		"of another issuer":     {map[string]string{api.AnnotationSecretName: "web-tls", api.AnnotationIssuer: string(api.IssuerExternal)}, []string{ProblemOverdue}},
		"of the signer":         {map[string]string{api.AnnotationSecretName: "web-tls"}, nil},
		"with the key of a pod": {map[string]string{api.AnnotationKeySource: string(api.KeySourcePod)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			web := selecting("web", 8443)
			web.Annotations = tt.annotations
			if tt.annotations[api.AnnotationIssuer] != "" {
				said := state.Ready{Secret: "web-tls", Leaf: pki.Fingerprint(leaf), External: true}
				web.Status.Conditions = state.Say(metav1.Condition{Type: api.ConditionReady, Status: metav1.ConditionTrue, Reason: "External"}, said).Both()
			}
			ports, _ := PodPorts([]corev1.Service{selecting("alias", 8443), web}, []corev1.Pod{readyPod("a")}, "cluster.local")
			require.Len(t, ports, 1)
			s := ports[0].Served(probe.Outcome{Kind: probe.TLS, Chain: []*x509.Certificate{leaf}}, nil, Roots{Public: poolOf(ca.Root)}, at)
			assert.Equal(t, tt.want, s.Problems)
			assert.Equal(t, slices.Contains(tt.want, ProblemChain), s.Has([]string{ProblemChain}) && s.Has(ServerProblems()))
		})
	}
}

// selecting returns a Service that leads to the port of readyPod.
func selecting(name string, port int32) corev1.Service {
	return corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Port: 443, TargetPort: intstr.FromInt32(port)}}},
	}
}

func poolOf(certs ...*x509.Certificate) *x509.CertPool {
	p := x509.NewCertPool()
	for _, c := range certs {
		p.AddCert(c)
	}
	return p
}

// TestServedPorts: what a port serves, beside what its pod mounts and what clients trust.
func TestServedPorts(t *testing.T) {
	now := time.Now()
	ca, other := rotatortest.NewCA(t, 1, now.Add(-3*time.Hour)), rotatortest.NewCA(t, 2, now).Renamed(t)
	leaf := func(ca rotatortest.CA, at time.Time, name string) *x509.Certificate {
		return ca.Issue(t, at, name).Leaf
	}
	current, older := leaf(ca, now, "web.shop.svc"), leaf(ca, now.Add(-30*time.Minute), "web.shop.svc")
	foreign := leaf(other, now, "web.shop.svc")
	service := selecting("web", 8443)
	selects := []*corev1.Service{&service}
	web := PodPort{Namespace: "shop", Pod: "a", selecting: selects, secrets: []string{"web-tls"}}
	secrets := map[string]MountedSecret{"web-tls": {Leaves: []*x509.Certificate{current}, CA: poolOf(ca.Root), Read: true}}
	for name, tt := range map[string]struct {
		serves  *x509.Certificate
		port    PodPort
		secrets map[string]MountedSecret
		roots   Roots
		state   string
		trust   string
		want    []string
	}{
		"the Secret's":              {current, web, secrets, Roots{}, InSecret, TrustSecret, nil},
		"an older one":              {older, web, secrets, Roots{}, OlderThanSecret, TrustSecret, []string{ProblemStale}},
		"another one":               {foreign, web, secrets, Roots{}, NotInSecret, TrustNone, []string{ProblemOther, ProblemUntrusted}},
		"another CA in ca.crt":      {current, web, map[string]MountedSecret{"web-tls": {Leaves: []*x509.Certificate{current}, CA: poolOf(other.Root), Read: true}}, Roots{}, InSecret, TrustNone, []string{ProblemChain, ProblemUntrusted}},
		"no ca.crt, no other root":  {current, web, map[string]MountedSecret{"web-tls": {Leaves: []*x509.Certificate{current}, Read: true}}, Roots{}, InSecret, TrustNone, []string{ProblemUntrusted}},
		"the Secret is unread":      {current, web, map[string]MountedSecret{}, Roots{Bundle: poolOf(ca.Root)}, SecretUnread, TrustCluster, []string{ProblemUnread}},
		"it may not be read":        {current, web, map[string]MountedSecret{"web-tls": {Forbidden: true}}, Roots{}, SecretUnread, TrustUnknown, []string{ProblemUnread, ProblemTrustUnread}},
		"its CA is not needed":      {current, web, map[string]MountedSecret{"web-tls": {Forbidden: true}}, Roots{Bundle: poolOf(ca.Root)}, SecretUnread, TrustCluster, []string{ProblemUnread}},
		"it holds a password":       {current, web, map[string]MountedSecret{"web-tls": {Read: true}}, Roots{Bundle: poolOf(ca.Root)}, NoSecret, TrustCluster, nil},
		"beside a password":         {foreign, PodPort{selecting: selects, secrets: []string{"password", "web-tls"}}, map[string]MountedSecret{"password": {Read: true}, "web-tls": secrets["web-tls"]}, Roots{Bundle: poolOf(other.Root)}, NotInSecret, TrustCluster, []string{ProblemOther}},
		"beside a keystore":         {foreign, PodPort{selecting: selects, secrets: []string{"keystore", "web-tls"}}, map[string]MountedSecret{"web-tls": secrets["web-tls"]}, Roots{Bundle: poolOf(other.Root)}, NotInSecret, TrustCluster, []string{ProblemOther}},
		"it holds other names":      {leaf(ca, now, "*.shop.svc"), PodPort{selecting: selects, secrets: []string{"keystore", "web-tls"}}, map[string]MountedSecret{"web-tls": secrets["web-tls"]}, Roots{}, SecretUnread, TrustSecret, []string{ProblemUnread}},
		"it does not exist":         {current, web, nil, Roots{}, SecretUnread, TrustNone, []string{ProblemUnread, ProblemUntrusted}},
		"the bundle is unread":      {foreign, web, secrets, Roots{Unread: true}, NotInSecret, TrustUnknown, []string{ProblemOther, ProblemTrustUnread}},
		"no Secret":                 {current, PodPort{selecting: selects}, nil, Roots{Public: poolOf(ca.Root)}, NoSecret, TrustPublic, nil},
		"expired":                   {leaf(ca, now.Add(-2*time.Hour), "web.shop.svc"), PodPort{selecting: selects}, nil, Roots{Bundle: poolOf(ca.Root)}, NoSecret, TrustCluster, []string{ProblemExpired}},
		"about to expire":           {leaf(ca, now.Add(-57*time.Minute), "web.shop.svc"), PodPort{selecting: selects}, nil, Roots{Bundle: poolOf(ca.Root)}, NoSecret, TrustCluster, []string{ProblemExpiring, ProblemOverdue}},
		"of another name":           {leaf(ca, now, "api.shop.svc"), PodPort{selecting: selects}, nil, Roots{Bundle: poolOf(ca.Root)}, NoSecret, TrustCluster, []string{ProblemNames}},
		"a name of the same suffix": {leaf(ca, now, "*.shop.svc"), PodPort{selecting: selects}, nil, Roots{Bundle: poolOf(ca.Root)}, NoSecret, TrustCluster, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := tt.port.Served(probe.Outcome{Kind: probe.TLS, Chain: []*x509.Certificate{tt.serves}}, tt.secrets, tt.roots, now)
			assert.Equal(t, tt.state, s.SecretState)
			assert.Equal(t, tt.trust, s.Trust)
			assert.Equal(t, tt.want, s.Problems)
		})
	}
	plain := web.Served(probe.Outcome{Kind: probe.Plaintext, Err: errors.New("x")}, secrets, Roots{}, now)
	assert.Equal(t, []string{ProblemPlaintext}, plain.Problems)
	silent := web.Served(probe.Outcome{Kind: probe.NoAnswer, Cause: probe.CauseTimeout}, secrets, Roots{}, now)
	assert.Equal(t, []string{ProblemUnreachable}, silent.Problems)

	report := PortReport{Ports: []ServedPort{plain}}
	assert.True(t, report.Fails([]string{ProblemStale, ProblemPlaintext}))
	assert.False(t, report.Fails([]string{ProblemStale, ProblemNotReady}))
	report.PodsNotReady = 1
	assert.True(t, report.Fails([]string{ProblemStale, ProblemNotReady}))

	second := plain
	second.Pod = "b"
	groups := GroupPorts([]ServedPort{plain, second, silent})
	require.Len(t, groups, 2)
	assert.Equal(t, 2, groups[0].Pods)
}
