package plan

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"
)

func service(namespace, name string, ports ...corev1.ServicePort) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": name}, Ports: ports}}
}

func tcp(port int32, target intstr.IntOrString) corev1.ServicePort {
	return corev1.ServicePort{Port: port, TargetPort: target}
}

// world returns Services in two namespaces: shop, the client's, and other.
func world() *index {
	db := service("shop", "db", tcp(5432, intstr.FromInt32(5433)))
	db.Spec.ClusterIP = corev1.ClusterIPNone
	return newIndex([]*corev1.Service{
		service("shop", "web", tcp(80, intstr.FromInt32(8080)), tcp(8080, intstr.FromInt32(8080))), service("other", "web", tcp(80, intstr.FromInt32(80))),
		service("shop", "redis", tcp(6379, intstr.FromInt32(6379))), service("shop", "mail", tcp(3000, intstr.FromInt32(3000))), db,
	}, "")
}

// found lists the references of a text: SERVICE PORT SPEAKS ADDRESS.
func found(x *index, text string, whole bool) []string {
	x.refer(finding{Reference{Via: ViaEnv, Kind: "Deployment", Namespace: "shop", Name: "a"}, whole}, text)
	var out []string
	for k, e := range x.services {
		for _, r := range e.references {
			out = append(out, k.namespace+"/"+fmt.Sprint(k.name, " ", r.Port, " ", r.Speaks, " ", r.Address))
		}
	}
	return out
}

func TestWhoATextRefersTo(t *testing.T) {
	for text, want := range map[string][]string{
		"http://web":                            {"shop/web 80 plaintext http://web"},
		"HTTP://Web":                            {"shop/web 80 plaintext HTTP://Web"},
		"http://web.other":                      {"other/web 80 plaintext http://web.other"},
		"http://web.other.":                     {"other/web 80 plaintext http://web.other."},
		"http://web.shop.svc:8080/api?x=http:y": {"shop/web 8080 plaintext http://web.shop.svc:8080"},
		"web.shop.svc.cluster.local":            {"shop/web 0 unknown web.shop.svc.cluster.local"},
		"redis.shop.svc.cluster.local.":         {"shop/redis 6379 unknown redis.shop.svc.cluster.local."},
		"https://web.shop.svc":                  {"shop/web 0 tls https://web.shop.svc"},
		"http://user:pa:ss@web/":                {"shop/web 80 plaintext http://web"},
		"http://web:81":                         {"shop/web 0 plaintext http://web:81"},
		"redis://:secret@redis":                 {"shop/redis 6379 plaintext redis://redis"},
		"tcp(redis:6379)/x":                     {"shop/redis 6379 unknown redis:6379"},
		"servers: [redis:6379]":                 {"shop/redis 6379 unknown redis:6379"},
		"proxy_pass http://web:8080;":           {"shop/web 8080 plaintext http://web:8080"},
		"see redis:6379.":                       {"shop/redis 6379 unknown redis:6379"},
		"jdbc:postgresql://db:5432/x":           {"shop/db 5432 unknown postgresql://db:5432"},
		"postgres://db-0.db:5433/x":             {"shop/db 5432 unknown postgres://db-0.db:5433"},
		"db-0.db.shop.svc:5432":                 {"shop/db 5432 unknown db-0.db.shop.svc:5432"},
		"wss://web:8080":                        {"shop/web 8080 tls wss://web:8080"},
		"http://web:99999":                      {"shop/web 80 plaintext http://web"},
		"http://mail":                           {"shop/mail 0 plaintext http://mail"},
		"smtp://mail:25":                        {"shop/mail 0 unknown smtp://mail:25"},
		"db-0.db.shop:5432":                     {"shop/db 5432 unknown db-0.db.shop:5432"},
		"postgres://db:1":                       {"shop/db 0 unknown postgres://db:1"},
		"see redis:6379. Or":                    {"shop/redis 6379 unknown redis:6379"},
		"smtp://mail":                           {"shop/mail 3000 unknown smtp://mail"},

		"":                              nil,
		"web":                           nil,
		"web redis: 6379":               nil,
		"redis:7.2":                     nil,
		"redis:6379-alpine":             nil,
		"redis:6379z redis:6379A":       nil,
		"redis:6379.5 redis:6379Z":      nil,
		"9redis:6379":                   nil,
		"registry/redis:6379":           nil,
		"redis:99999":                   nil,
		"http://web.example.com":        nil,
		"http://nobody.shop.svc":        nil,
		"http://x.svc":                  nil,
		"http://":                       nil,
		"http://:80":                    nil,
		"http://web_x":                  nil,
		"http://user@x/y@web":           nil,
		strings.Repeat("a", 300) + ":1": nil,

		strings.Repeat("- ", 200) + "redis:6379": {"shop/redis 6379 unknown redis:6379"},
	} {
		assert.Equal(t, want, found(world(), text, false), "%q", text)
	}
	assert.Equal(t, []string{"shop/redis 6379 unknown redis"}, found(world(), "redis", true))
	assert.Nil(t, found(world(), "nobody", true))
	assert.Equal(t, []string{"shop/web 80 plaintext http://web"}, found(world(), "http://web", true))
}

// For an unknown program, an HTTPS probe is better evidence than the number of the Service's port.
func TestAnHTTPSProbeSaysTLS(t *testing.T) {
	for _, target := range []int32{80, 8080} {
		for via, want := range map[Via]Today{ViaProbe: TodayOwn, ViaLocalhost: TodayPlaintext} {
			p := Port{Today: TodayUnknown}
			if p.probed([]Reference{{Via: via, Speaks: SpeaksTLS}}); p.Today == TodayUnknown {
				p.Today, _ = declaredToday(tcp(443, intstr.FromInt32(target)), []behind{{port: target}})
			}
			assert.Equal(t, want, p.Today, via)
		}
	}
}

func TestNamesOfHosts(t *testing.T) {
	for name, want := range map[string]bool{"WEB_HOST": true, "redis.addr": true, "DB-HOSTNAME": true, "HOST": true, "NAME": false, "": false, "_": false, "HOST_NAME": false} {
		assert.Equal(t, want, namesHost(name), name)
	}
}

func TestVariablesAreExpanded(t *testing.T) {
	c := &corev1.Container{Env: []corev1.EnvVar{{Name: "H", Value: "web"}, {Name: "U", Value: "http://$(H):$(P)"}, {Name: "P", Value: "8080"}, {Name: "S", ValueFrom: &corev1.EnvVarSource{}}}}
	values := valuesOf(c)
	assert.Equal(t, "http://web:$(P)", values["U"], "a later variable is not known yet")
	assert.Equal(t, "web $(S) 8080 $(", expand("$(H) $(S) ${P} $(", values))
	long := map[string]string{"A": strings.Repeat("x", maxExpanded/2)}
	assert.Less(t, len(expand(strings.Repeat("$(A)", 1000), long)), 2*maxExpanded, "the expanded text is bounded")
}

// TestAnyTextIsRead: no text causes a panic, and addresses are valid and contain no password.
func TestAnyTextIsRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOf(rapid.OneOf(rapid.SampledFrom([]string{"http://", "web", ".shop", ".svc", ":8080", "@", "/", ".", "redis", ":", "secret", " "}), rapid.String())).Draw(t, "text"), "")
		eachAddress(text, func(a address) {
			if !utf8.ValidString(a.text) || strings.Contains(a.text, "@") || a.host == "" || len(a.host) > maxHost+1 || a.port < 0 || a.port > 65535 {
				t.Fatalf("%q: %+v", text, a)
			}
		})
	})
}

// TestNamesAreOfAtMost253Bytes: a trailing dot does not count.
func TestNamesAreOfAtMost253Bytes(t *testing.T) {
	longest := strings.Repeat("a", maxHost)
	count := func(text string) (n int) {
		eachAddress(text, func(address) { n++ })
		return n
	}
	assert.Equal(t, 1, count(longest+":80"))
	assert.Equal(t, 1, count(longest+".:80"))
	assert.Zero(t, count(longest+"a.:80"))
	x := newIndex([]*corev1.Service{service("shop", longest, tcp(80, intstr.FromInt32(80))), service("shop", longest+"a", tcp(80, intstr.FromInt32(80)))}, "")
	assert.Len(t, found(x, longest, true), 1)
	assert.Len(t, found(x, longest+"a", true), 1, "only the first")
}
