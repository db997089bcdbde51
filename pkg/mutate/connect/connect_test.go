package connect

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/bounded"
)

func port(name string, number int32, target string) corev1.ServicePort {
	return corev1.ServicePort{Name: name, Port: number, TargetPort: intstr.Parse(target)}
}

func service(name string, ports ...corev1.ServicePort) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Annotations: map[string]string{api.AnnotationSecretName: name + "-tls"}},
		Spec:       corev1.ServiceSpec{ClusterIP: "10.0.0.1", Selector: map[string]string{"app": name}, Ports: ports},
	}
}

func client(pod *corev1.Pod) Client {
	return Client{Pod: pod, Namespace: "shop", ClusterDomain: "cluster.local"}
}

func entries(t *testing.T, value string) []api.Connect {
	t.Helper()
	out, errs := api.ParseSettings(map[string]string{api.AnnotationConnect: value})
	require.Empty(t, errs)
	return out.Connect
}

// TestTwin: the TLS port of a plaintext port leads to the same program.
func TestTwin(t *testing.T) {
	for name, tc := range map[string]struct {
		ports []corev1.ServicePort
		want  []Port
		why   string
	}{
		"what plan adds": {
			[]corev1.ServicePort{port("http", 80, "8080"), port("metrics", 9100, "9100"), port("x", 9444, "sc-tls-9100"), port("y", 444, "sc-tls-8080")},
			[]Port{{80, 444, "http"}, {9100, 9444, ""}, {9444, 9444, "either"}, {444, 444, "either"}}, "",
		},
		"by the name of the program's port": {
			[]corev1.ServicePort{port("a", 1, "web"), port("b", 2, "other"), port("c", 3, "sc-tls-other"), port("d", 4, "sc-any-web")},
			[]Port{{1, 4, ""}, {2, 3, ""}, {3, 3, "either"}, {4, 4, "either"}}, "",
		},
		"a program that serves both": {
			[]corev1.ServicePort{port("http", 80, "8080"), port("https", 443, "8443")}, []Port{{80, 443, "http"}, {443, 443, "http"}}, "",
		},
		"by name": {
			[]corev1.ServicePort{port("redis", 6379, "6379"), port("sentinel", 26379, "26379"), port("tls-sentinel", 2, "2"), port("tls-redis", 3, "3")},
			[]Port{{6379, 3, ""}, {26379, 2, ""}, {2, 2, "either"}, {3, 3, "either"}}, "",
		},
		"a server that is first": {[]corev1.ServicePort{port("mysql", 3306, "sc-tls-3306")}, []Port{{3306, 3306, ""}}, ""},
		"clients of TLS":         {[]corev1.ServicePort{port("tls-imap", 993, "sc-tls-143")}, []Port{{993, 993, "either"}}, ""},
		"no port says TLS":       {[]corev1.ServicePort{port("postgres", 5432, "5432")}, nil, "no TLS port belongs to port 5432"},
		"another program": {
			[]corev1.ServicePort{port("postgres", 5432, "5432"), port("tls-metrics", 9187, "sc-tls-9187")}, nil, "no TLS port belongs to port 5432",
		},
		"another port of the program": {[]corev1.ServicePort{port("http", 80, "8080"), port("https", 443, "sc-tls-9090")}, nil, "no TLS port belongs to port 80"},
		"metrics beside TLS":          {[]corev1.ServicePort{port("https", 8443, "8443"), port("metrics", 8080, "8080")}, nil, "no TLS port belongs to port 8080"},
		"by its number":               {[]corev1.ServicePort{port("", 4222, "sc-any-4222")}, []Port{{4222, 4222, ""}}, ""},
		"ssh beside https":            {[]corev1.ServicePort{port("ssh", 22, "2222"), port("https", 443, "3000")}, nil, "no TLS port belongs to port 22"},
		"transport beside https":      {[]corev1.ServicePort{port("https", 9200, "9200"), port("transport", 9300, "9300")}, nil, "no TLS port belongs to port 9300"},
		"gRPC beside https":           {[]corev1.ServicePort{port("https", 8501, "8501"), port("grpc", 8502, "8502")}, nil, "no TLS port belongs to port 8502"},
		"ldap beside https":           {[]corev1.ServicePort{port("ldap", 389, "1389"), port("https", 443, "8443")}, nil, "no TLS port belongs to port 389"},
		"a name and a number":         {[]corev1.ServicePort{port("db", 80, "db"), port("tls", 443, "sc-tls-9090")}, nil, "no TLS port belongs to port 80"},
		"of another port by its number": {
			[]corev1.ServicePort{port("a", 1, "8080"), port("http", 80, "web"), port("https", 443, "sc-tls-8080")}, nil, "no TLS port belongs to port 80:",
		},
		"one TLS port for two names": {
			[]corev1.ServicePort{port("api", 50051, "50051"), port("http-api", 8080, "8080"), port("tls-api", 8443, "8443")}, nil, "no TLS port belongs to port 8080:",
		},
		"one TLS port for two names, and the suffix": {
			[]corev1.ServicePort{port("otlp", 4317, "otlp"), port("otlp-http", 4318, "otlp-http"), port("tls-otlp", 4319, "sc-tls-4317")}, nil, "no TLS port belongs to port 4318:",
		},
		"neither name is the whole one": {
			[]corev1.ServicePort{port("api-http", 1, "1"), port("http-api", 2, "2"), port("tls-api", 3, "3")}, nil, "no TLS port belongs to port 1, 2:",
		},
		"HTTP of one port": {
			[]corev1.ServicePort{port("http-stats", 15672, "stats"), port("https-stats", 15671, "stats-tls")},
			[]Port{{15672, 15671, "http"}, {15671, 15671, "http"}}, "",
		},
		"unclear": {[]corev1.ServicePort{port("a", 1, "1"), port("b", 2, "2"), port("tls", 3, "3")}, nil, "no TLS port belongs to port 1, 2"},
	} {
		t.Run(name, func(t *testing.T) {
			targets, left := Targets(client(&corev1.Pod{}), entries(t, "web"), []*corev1.Service{service("web", tc.ports...)})
			if tc.why != "" {
				require.Len(t, left, 1)
				assert.Contains(t, left[0].Why, tc.why)
				assert.Empty(t, targets)
				return
			}
			require.Empty(t, left)
			assert.Equal(t, tc.want, targets[0].Ports)
		})
	}
}

// TestPortsWithStartTLS: a port at which TLS begins within a protocol is no TLS port, whatever says so; one at which the
// first byte is TLS is.
func TestPortsWithStartTLS(t *testing.T) {
	speaks := func(p corev1.ServicePort, appProtocol string) corev1.ServicePort {
		p.AppProtocol = &appProtocol
		return p
	}
	for name, tc := range map[string]struct {
		probe string
		port  corev1.ServicePort
		tls   bool
	}{
		"the number of TLS":            {"", port("", 443, "143"), true},
		"a name, and that number":      {"", port("imap", 443, "143"), false},
		"with tcp- before it":          {"", port("tcp-smtp", 8443, "25"), false},
		"an appProtocol":               {"", speaks(port("db", 443, "5432"), "postgres"), false},
		"an appProtocol with a domain": {"", speaks(port("db", 443, "3306"), "example.com/mysql"), false},
		"the name of the targetPort":   {"", port("db", 9443, "ldap"), false},
		"an appProtocol that says TLS": {"", speaks(port("smtp", 465, "465"), "tls"), true},
		"a name that says TLS":         {"", speaks(port("tls-db", 5432, "5432"), "postgres"), true},
		"TLS by its own name":          {"", port("imaps", 993, "993"), true},
		"the annotation":               {"443=nats", port("tls", 443, "4222"), false},
		"TLS by the annotation":        {"5432=tls", port("postgres", 5432, "5432"), true},
		"a proxy":                      {"5432=postgres", port("postgres", 5432, "sc-tls-5432"), true},
		"neither says TLS":             {"", port("imap", 143, "143"), false},
	} {
		t.Run(name, func(t *testing.T) {
			svc := service("mail", tc.port)
			if tc.probe != "" {
				svc.Annotations[api.AnnotationProbe] = tc.probe
			}
			targets, left := Targets(client(&corev1.Pod{}), entries(t, "mail"), []*corev1.Service{svc})
			if !tc.tls {
				require.Len(t, left, 1)
				assert.Contains(t, left[0].Why, fmt.Sprintf("no TLS port belongs to port %d", tc.port.Port))
				return
			}
			require.Empty(t, left)
			require.Len(t, targets[0].Ports, 1)
			assert.Equal(t, tc.port.Port, targets[0].Ports[0].TLS)
		})
	}
}

// TestUsedPorts: the proxy does not listen where a program of the pod seems to, because the program could not.
func TestUsedPorts(t *testing.T) {
	svc := service("db", port("tls", 5432, "sc-tls-5432"))
	of := func(c corev1.Container) *corev1.Pod {
		c.Name = "web"
		return &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{c}}}
	}
	env := func(name, value string) corev1.Container {
		return corev1.Container{Env: []corev1.EnvVar{{Name: name, Value: value}}}
	}
	probe := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(5432)}}}
	for says, c := range map[string]corev1.Container{
		"container web, ports":           {Ports: []corev1.ContainerPort{{ContainerPort: 5432}}},
		"container web, probes":          {ReadinessProbe: probe},
		"container web, env PORT":        env("PORT", "5432"),
		"container web, env ADDR":        env("ADDR", ":5432"),
		"container web, env LISTEN_ON":   env("LISTEN_ON", "5432"),
		"container web, env SERVER_PORT": env("SERVER_PORT", "5432"),
		"container web, arguments":       {Args: []string{"--listen=0.0.0.0:5432"}},
		"container web, env TCP_6":       env("TCP_6", "tcp://[::]:5432"),
		"container web, env HTTP_6":      env("HTTP_6", "http://[::]:5432"),
		"container web, env URLS":        env("URLS", "http://0.0.0.0:5432/"),
		"container web, env BIND":        env("BIND", "5432"),
	} {
		_, left := Targets(client(of(c)), entries(t, "db"), []*corev1.Service{svc})
		if assert.Len(t, left, 1, says) {
			assert.Contains(t, left[0].Why, says)
		}
	}
	for _, c := range []corev1.Container{
		env("DB_PORT", "5432"), env("DB", "db:5432"), env("DATABASE_URL", "postgres://db:5432/x"), {Args: []string{"--port=5432", "-p", "5432", "db:5432"}},
		{Ports: []corev1.ContainerPort{{ContainerPort: 5432, Protocol: corev1.ProtocolUDP}}}, env("PORT", "15432"),
	} {
		_, left := Targets(client(of(c)), entries(t, "db"), []*corev1.Service{svc})
		assert.Empty(t, left, "%v", c)
	}
}

// TestPrivilegedPorts: a pod that sets the sysctl itself keeps it.
func TestPrivilegedPorts(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{SecurityContext: &corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: UnprivilegedPorts, Value: "444"}}}}}
	services := []*corev1.Service{service("low", port("https", 443, "sc-tls-1")), service("high", port("tls", 444, "sc-tls-1"))}
	targets, left := Targets(client(pod), entries(t, "low,high"), services)
	require.Len(t, left, 1)
	assert.Equal(t, "low.shop", left[0].Service)
	assert.Contains(t, left[0].Why, "sets sysctl net.ipv4.ip_unprivileged_port_start to 444")
	assert.Len(t, targets, 1)
}

// TestAll: "*" means the Services of the namespace that request a certificate and do not select the pod, and entries
// beside it keep their ports.
func TestAll(t *testing.T) {
	other := service("other", port("https", 443, "sc-tls-1"))
	other.Namespace = "data"
	plain := service("plain", port("http", 80, "1"))
	plain.Annotations = nil
	services := []*corev1.Service{plain, service("web", port("https", 443, "sc-tls-1")), service("api", port("http", 80, "1"), port("https", 443, "sc-tls-1")), other}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}}
	targets, left := Targets(client(pod), entries(t, "*, api:80, api:443, api:80"), services)
	assert.Empty(t, left)
	require.Len(t, targets, 1)
	assert.Equal(t, []string{"api", "api.shop", "api.shop.svc", "api.shop.svc.cluster.local"}, targets[0].Names)
	assert.Equal(t, []Port{{80, 443, "http"}, {443, 443, "http"}}, targets[0].Ports)
	assert.Equal(t, "api.shop.svc", targets[0].Host())

	_, left = Targets(client(pod), entries(t, "plain"), services)
	assert.Contains(t, left[0].Why, "no Service of that name requests a certificate")
	for _, svc := range services {
		svc.Namespace = "" // as in a manifest
	}
	targets, _ = Targets(client(pod), entries(t, "api"), services)
	assert.Equal(t, "api.shop.svc", targets[0].Host())

	_, left = Targets(client(pod), entries(t, "api:81"), services)
	assert.Equal(t, []Left{{"api.shop", "it has no TCP port 81: correct the number", true}}, left)
}

// TestIPv6: a Service without an IPv4 address has the only loopback address of IPv6, on which each port has one listener.
func TestIPv6(t *testing.T) {
	var services []*corev1.Service
	for name, ips := range map[string][]string{"a": {"fd00::1"}, "b": {"fd00::2"}, "c": {"fd00::3", "10.0.0.3"}} {
		svc := service(name, port("https", 443, "sc-tls-1"))
		svc.Spec.ClusterIP, svc.Spec.ClusterIPs = ips[0], ips
		services = append(services, svc)
	}
	targets, left := Targets(client(&corev1.Pod{}), entries(t, "*"), services)
	require.Len(t, targets, 2)
	assert.Equal(t, "::1", targets[0].Address)
	assert.Equal(t, "127.1.0.2", targets[1].Address)
	require.Len(t, left, 1)
	assert.Contains(t, left[0].Why, "a port of it is one of a.shop too")
}

// TestBounds: what exceeds the bounds is left out: "*" first, then Services of other namespaces, whose owners choose
// their ports.
func TestBounds(t *testing.T) {
	large := func(name string, ports int32) *corev1.Service {
		svc := service(name)
		for n := range ports {
			svc.Spec.Ports = append(svc.Spec.Ports, port("https-"+strings.Repeat("x", int(n)), 443+n, "sc-tls-1"))
		}
		return svc
	}
	var services []*corev1.Service
	for i := range maxWishes + 8 {
		services = append(services, large(fmt.Sprintf("s%03d", i), 5))
	}
	targets, left := Targets(client(&corev1.Pod{}), entries(t, "*"), services)
	ports, seen := 0, map[string]bool{}
	for _, target := range targets {
		ports += len(target.Ports)
		assert.False(t, seen[target.Address])
		seen[target.Address] = true
	}
	assert.LessOrEqual(t, ports, api.MaxConnectPorts)
	assert.Len(t, targets, 51)
	assert.Contains(t, left[0].Why, "more than 256 Services of the namespace")
	assert.Contains(t, left[1].Why, "more than 256 ports together")

	var small []*corev1.Service
	for i := range api.MaxConnects + 8 {
		small = append(small, large(fmt.Sprintf("s%03d", i), 1))
	}
	targets, left = Targets(client(&corev1.Pod{}), entries(t, "*"), small)
	assert.Len(t, targets, api.MaxConnects)
	assert.Contains(t, left[0].Why, "more than 64 Services")

	log := large("log", api.MaxConnectPorts)
	log.Namespace = "data"
	targets, left = Targets(client(&corev1.Pod{}), entries(t, "log.data, web, *"), append(small, log, large("web", 1), large("a", 1)))
	require.NotEmpty(t, targets)
	assert.Equal(t, "web.shop.svc", targets[0].Host(), "nobody else has it left out")
	assert.Equal(t, "log.data", left[0].Service)
	assert.Equal(t, "a.shop.svc", targets[1].Host())
}

// TestCost: the owners of Services choose how many ports these have.
func TestCost(t *testing.T) {
	var services []*corev1.Service
	for i := range 2 * maxWishes {
		svc := service(fmt.Sprintf("s%03d", i))
		for n := range int32(128) {
			svc.Spec.Ports = append(svc.Spec.Ports, port(fmt.Sprintf("a%d", n), 1000+n, fmt.Sprint(2000+n)), port(fmt.Sprintf("b%d", n), 5000+n, fmt.Sprintf("sc-tls-%d", 6000+n)))
		}
		services = append(services, svc)
	}
	all := entries(t, "*")
	all = append(all, api.Connect{Service: "s000"}, api.Connect{Service: "s001"})
	try := func() {
		targets, _ := Targets(client(&corev1.Pod{}), all, services)
		assert.Empty(t, targets)
	}
	assert.Less(t, bounded.Allocated(try), uint64(1<<20*bounded.RaceFactor))
	assert.NoError(t, bounded.Took(100*time.Millisecond, try))
}

// TestOwnHostsFile: the kubelet writes no hosts file for a container that mounts one.
func TestOwnHostsFile(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{VolumeMounts: []corev1.VolumeMount{{MountPath: "/etc/hosts"}}}}}}
	_, left := Targets(client(pod), entries(t, "web"), []*corev1.Service{service("web", port("https", 443, "sc-tls-1"))})
	require.Len(t, left, 1)
	assert.Contains(t, left[0].Why, "mounts its own /etc/hosts")
}

// TestPortsOfTheServicesOfThePod: a program listens where a Service leads to it, even if the pod does not declare it.
func TestPortsOfTheServicesOfThePod(t *testing.T) {
	c := client(&corev1.Pod{})
	c.Used = []int32{443}
	_, left := Targets(c, entries(t, "web"), []*corev1.Service{service("web", port("https", 443, "sc-tls-1"))})
	require.Len(t, left, 1)
	assert.Contains(t, left[0].Why, "port 443 is used in the pod itself (a Service selects the pod with it)")
}

// TestServicesOfOthersDoNotDisplaceEachOther: the owner of one listed Service of another namespace cannot have that of
// a third left out, neither by the number of its ports nor, where all have one address, by their numbers.
func TestServicesOfOthersDoNotDisplaceEachOther(t *testing.T) {
	of := func(namespace, name string, ports ...corev1.ServicePort) *corev1.Service {
		svc := service(name, ports...)
		svc.Namespace = namespace
		return svc
	}
	db := of("data", "db", port("postgres", 5432, "5432"), port("tls", 5433, "sc-tls-5432"))
	log := of("aaa", "log")
	for n := range int32(mostUnlisted + 1) {
		log.Spec.Ports = append(log.Spec.Ports, port(fmt.Sprintf("tls-%d", n), 20000+n, "sc-tls-1"))
	}
	targets, left := Targets(client(&corev1.Pod{}), entries(t, "log.aaa, db.data"), []*corev1.Service{log, db})
	require.Len(t, targets, 1)
	assert.Equal(t, "db.data.svc", targets[0].Host())
	require.Len(t, left, 1)
	assert.Contains(t, left[0].Why, "more than 32 ports, and another namespace owns it: list the ports that are meant, as SERVICE.NAMESPACE:PORT")
	targets, left = Targets(client(&corev1.Pod{}), entries(t, "log.aaa:20001, db.data"), []*corev1.Service{log, db})
	assert.Len(t, targets, 2)
	assert.Empty(t, left)

	services, listed := []*corev1.Service{db}, []string{"db.data:5432"}
	for i := range api.MaxConnectPorts / mostUnlisted {
		large := of("aaa", fmt.Sprintf("s%d", i), log.Spec.Ports[:mostUnlisted]...)
		services, listed = append(services, large), append(listed, large.Name+".aaa")
	}
	targets, _ = Targets(client(&corev1.Pod{}), entries(t, strings.Join(listed, ",")), services)
	assert.Equal(t, "db.data.svc", targets[0].Host(), "its owner does not choose how many ports it takes")

	log.Spec.Ports = []corev1.ServicePort{port("tls", 5432, "sc-tls-1")}
	for _, svc := range []*corev1.Service{log, db} {
		svc.Spec.ClusterIP, svc.Spec.ClusterIPs = "fd00::1", []string{"fd00::1"}
	}
	targets, left = Targets(client(&corev1.Pod{}), entries(t, "log.aaa, db.data:5432"), []*corev1.Service{log, db})
	require.Len(t, targets, 1)
	assert.Equal(t, "db.data.svc", targets[0].Host())
	require.Len(t, left, 1)
	assert.Contains(t, left[0].Why, "it has no IPv4 address, and another namespace owns it: list the ports that are meant")
}

// TestNamesOfThePodItself: programs that call localhost or the pod's own name do not mean a Service.
func TestNamesOfThePodItself(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "cart-0"}}
	for _, name := range []string{"localhost", "ip6-localhost", "ip6-loopback", "ip6-localnet", "ip6-mcastprefix", "ip6-allnodes", "ip6-allrouters", "cart-0"} {
		for _, entry := range []string{"*", name} {
			_, left := Targets(client(pod), entries(t, entry), []*corev1.Service{service(name, port("https", 443, "sc-tls-1"))})
			if assert.Len(t, left, 1, name) {
				assert.Contains(t, left[0].Why, "in the pod, "+name+" means the pod itself")
			}
		}
	}
	pod.Spec.Hostname = "cart"
	_, left := Targets(client(pod), entries(t, "cart"), []*corev1.Service{service("cart", port("https", 443, "sc-tls-1"))})
	assert.Len(t, left, 1)
	targets, _ := Targets(client(pod), entries(t, "cart-0"), []*corev1.Service{service("cart-0", port("https", 443, "sc-tls-1"))})
	assert.Len(t, targets, 1)
	other := service("localhost", port("https", 443, "sc-tls-1"))
	other.Namespace = "data"
	targets, _ = Targets(client(pod), entries(t, "localhost.data"), []*corev1.Service{other})
	assert.Len(t, targets, 1, "its names have the namespace")
}

// TestLinesOfTheHostsFile: musl reads 511 bytes of a line, and asks DNS for names behind them. Services without an IPv4
// address share one line.
func TestLinesOfTheHostsFile(t *testing.T) {
	var services []*corev1.Service
	for i := range 12 {
		svc := service(fmt.Sprintf("orders-%02d", i), port("tls", 8000+int32(i), "sc-tls-1"))
		svc.Spec.ClusterIP, svc.Spec.ClusterIPs = "fd00::1", []string{"fd00::1"}
		services = append(services, svc)
	}
	targets, left := Targets(client(&corev1.Pod{}), entries(t, "*"), services)
	line := "::1"
	for _, target := range targets {
		line += "\t" + strings.Join(target.Names, "\t")
	}
	assert.LessOrEqual(t, len(line+"\n"), 511)
	assert.Len(t, targets, 6)
	require.Len(t, left, 6)
	assert.Contains(t, left[0].Why, "the line of ::1 in the hosts file would have more than 511 bytes, of which programs with musl read no more: list fewer Services without an IPv4 address")

	long := service(strings.Repeat("x", 63), port("tls", 1, "sc-tls-1"))
	c := client(&corev1.Pod{})
	c.Namespace, c.ClusterDomain = strings.Repeat("n", 63), "cluster.local"
	long.Namespace = c.Namespace
	targets, _ = Targets(c, entries(t, long.Name), []*corev1.Service{long})
	assert.Len(t, targets, 1, "the longest names")
	c.ClusterDomain = strings.Repeat("d", 63) + ".example"
	_, left = Targets(c, entries(t, long.Name), []*corev1.Service{long})
	assert.Len(t, left, 1)
}

// TestUsedPortsOfTheLoopbackAddress: a Service without an IPv4 address has the address that programs call localhost.
func TestUsedPortsOfTheLoopbackAddress(t *testing.T) {
	svc := service("db", port("tls", 5432, "sc-tls-5432"))
	for _, value := range []string{"localhost:5432", "[::1]:5432", "tcp://localhost:5432", "http://[::1]:5432/"} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Args: []string{"--listen=" + value}}}}}
		svc.Spec.ClusterIP, svc.Spec.ClusterIPs = "fd00::1", []string{"fd00::1"}
		_, left := Targets(client(pod), entries(t, "db"), []*corev1.Service{svc})
		if assert.Len(t, left, 1, value) {
			assert.Contains(t, left[0].Why, "container web, arguments")
		}
		svc.Spec.ClusterIP, svc.Spec.ClusterIPs = "10.0.0.1", nil
		_, left = Targets(client(pod), entries(t, "db"), []*corev1.Service{svc})
		assert.Empty(t, left, "127.1.0.1 is another address")
	}
}
