package api

import (
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/servingcert/servingcert/pkg/proxy"
)

func TestParseConnect(t *testing.T) {
	got, errs := ParseSettings(map[string]string{AnnotationConnect: " api, db.data:5432 ,*,api"})
	assert.Empty(t, errs)
	assert.Equal(t, []Connect{{Service: "api"}, {Service: "db", Namespace: "data", Port: 5432}, {}}, got.Connect)
	assert.Equal(t, got.Connect, Settings{}.Or(got).Connect)
	assert.Equal(t, []Connect{{}}, Settings{Connect: []Connect{{}}}.Or(got).Connect)
	none, errs := ParseSettings(map[string]string{AnnotationConnect: " none "})
	assert.Empty(t, errs)
	assert.Empty(t, none.Connect)
	assert.Empty(t, none.Or(got).Connect, "it is more than not set: a pod opts out of what its Namespace lists")
	named, errs := ParseSettings(map[string]string{AnnotationConnect: "none.shop, none:80"})
	assert.Empty(t, errs)
	assert.Equal(t, []Connect{{Service: "none", Namespace: "shop"}, {Service: "none", Port: 80}}, named.Connect, "a Service of that name")
	_, errs = ParseSettings(map[string]string{AnnotationConnect: "api, none"})
	require.Len(t, errs, 1)
	assert.ErrorContains(t, errs[0], `"none" must be alone`)
	for _, value := range []string{"", "http://api", "api.shop.svc", "api:", "api:0", "api:65536", "api:http", "API", "-api", "api.", "*.shop", "*:80", "a b", strings.Repeat("a,", MaxConnects) + "a"} {
		_, errs := ParseSettings(map[string]string{AnnotationConnect: value})
		assert.NotEmpty(t, errs, value)
	}
}

// TestProxyConnect: whatever is read is written in the same way, so that a second pass finds what the first wrote.
func TestProxyConnect(t *testing.T) {
	for text, want := range map[string]ProxyConnect{
		"[::1]:80=api.shop.svc:443":               {"::1", 80, "api.shop.svc", 443, ConnectPlain},
		"127.1.0.1:80=api.shop.svc:443,http":      {"127.1.0.1", 80, "api.shop.svc", 443, ConnectHTTP},
		"127.1.0.64:5432=db.data.svc:5432,either": {"127.1.0.64", 5432, "db.data.svc", 5432, ConnectEither},
		"127.1.0.2:65535=1web.x-y.svc:1":          {"127.1.0.2", 65535, "1web.x-y.svc", 1, ConnectPlain},
	} {
		got, ok := ParseProxyConnect(text)
		assert.True(t, ok, text)
		assert.Equal(t, want, got)
		assert.Equal(t, text, got.String())
	}
	for _, text := range []string{
		"", "127.1.0.1:80", "127.0.0.1:80=api.shop.svc:443", "10.0.0.1:80=api.shop.svc:443", "::1:80=api.shop.svc:443", "[fd00::1]:80=api.shop.svc:443", "[::ffff:127.1.0.1]:80=api.shop.svc:443", "127.1.0.1:0=api.shop.svc:443",
		"127.1.0.1:80=api.shop.svc:0", "127.1.0.1:80=api.shop:443", "127.1.0.1:80=api.svc:443", "127.1.0.1:80=a.b.c.svc:443", "127.1.0.1:80=api.shop.svc:443,",
		"127.1.0.1:80=api.shop.svc:443,https", "127.1.0.1:80=api.shop.svc:443,http,http", "127.1.0.1:080=api.shop.svc:443", "127.1.0.1:80=" + strings.Repeat("a", 200) + ".shop.svc:443",
	} {
		_, ok := ParseProxyConnect(text)
		assert.False(t, ok, text)
	}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`127\.1\.[0-9]\.[0-9]{1,3}:[0-9]{1,5}=[a-z.-]{1,9}\.svc:[0-9]{1,5}(,http|,either|)`).Draw(t, "text")
		if c, ok := ParseProxyConnect(text); ok && c.String() != text {
			t.Fatalf("%q is read as %q", text, c)
		}
	})
}

// TestProxyThatOnlyConnects: a proxy may listen for no Service.
func TestProxyThatOnlyConnects(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	pod := &corev1.Pod{Spec: corev1.PodSpec{InitContainers: []corev1.Container{{
		Name: ProxyContainer, RestartPolicy: &always, Args: []string{"--connect=127.1.0.1:80=api.shop.svc:443", "--connect=x"},
	}}}}
	got, ok := ProxyOf(pod)
	assert.True(t, ok)
	assert.Empty(t, got.Listeners)
	assert.Equal(t, []ProxyConnect{{"127.1.0.1", 80, "api.shop.svc", 443, ConnectPlain}}, got.Connects)
}

// TestTheProxyReadsWhatTheWebhookWrites: the proxy has a parser of its own, because this package is too large for it.
func TestTheProxyReadsWhatTheWebhookWrites(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		address := rapid.OneOf(rapid.Just("::1"), rapid.Just(ConnectAddress(rapid.IntRange(1, MaxConnects).Draw(t, "number")).String())).Draw(t, "address")
		label := rapid.StringMatching(`[a-z0-9]([a-z0-9-]{0,5}[a-z0-9])?`)
		port := rapid.Int32Range(1, 65535)
		c := ProxyConnect{
			address, port.Draw(t, "port"), label.Draw(t, "service") + "." + label.Draw(t, "namespace") + ".svc", port.Draw(t, "tls"),
			rapid.SampledFrom([]ConnectProtocol{ConnectPlain, ConnectHTTP, ConnectEither}).Draw(t, "protocol"),
		}
		got, err := proxy.ParseConnect(c.String())
		if err != nil {
			t.Fatal(err)
		}
		want := proxy.Connect{
			Name: c.Host + ":" + strconv.Itoa(int(c.Port)), Local: netip.AddrPortFrom(netip.MustParseAddr(address), uint16(c.Port)),
			Host: c.Host, Port: uint16(c.TLSPort), Mode: proxy.Mode(c.Protocol),
		}
		if again, ok := ParseProxyConnect(c.String()); got != want || !ok || again != c {
			t.Fatalf("%s is read as %+v and %+v", c, got, again)
		}
	})
}

// TestConnectIsWrittenAsItIsRead: a list of entries survives being written.
func TestConnectIsWrittenAsItIsRead(t *testing.T) {
	for _, value := range []string{"*", "web", "db.data", "db.data:5432", "web:80", "web, db.data, *"} {
		s, errs := ParseSettings(map[string]string{AnnotationConnect: value})
		assert.Empty(t, errs)
		assert.Equal(t, value, FormatConnect(s.Connect))
	}
}
