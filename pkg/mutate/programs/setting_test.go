package programs

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func replaced(text string) string {
	return strings.NewReplacer(Cert, "/tls/tls.crt", Key, "/tls/tls.key", Dir, "/tls").Replace(text)
}

// TestSettings: the forms in which programs take their flags.
func TestSettings(t *testing.T) {
	for name, tc := range map[string]struct {
		flags []string
		want  []Setting
	}{
		"nothing": {nil, nil},
		"assigned": {[]string{"--cert={cert}", "-key={key}"}, []Setting{
			{Name: "cert", Value: "/tls/tls.crt", Elements: []string{"--cert=/tls/tls.crt"}, Certificate: true},
			{Name: "key", Value: "/tls/tls.key", Elements: []string{"-key=/tls/tls.key"}, Certificate: true},
		}},
		"two elements": {[]string{"-c", "{cert}", "--key", "{key}"}, []Setting{
			{Name: "c", Value: "/tls/tls.crt", Elements: []string{"-c", "/tls/tls.crt"}, Certificate: true},
			{Name: "key", Value: "/tls/tls.key", Elements: []string{"--key", "/tls/tls.key"}, Certificate: true},
		}},
		"introduced": {[]string{"-c", "ssl=on", "-c", "ssl_cert_file={cert}"}, []Setting{
			{Name: "ssl", Value: "on", Elements: []string{"-c", "ssl=on"}},
			{Name: "ssl_cert_file", Value: "/tls/tls.crt", Elements: []string{"-c", "ssl_cert_file=/tls/tls.crt"}, Certificate: true},
		}},
		"a value with an equals sign in a path": {[]string{"--listen", "tcp://0.0.0.0?x=y"}, []Setting{
			{Name: "listen", Value: "tcp://0.0.0.0?x=y", Elements: []string{"--listen", "tcp://0.0.0.0?x=y"}},
		}},
		"bare": {[]string{"--tls"}, []Setting{{Name: "tls", Bare: true, Elements: []string{"--tls"}}}},
		"bare before others": {[]string{"--tls", "--tlscert", "{cert}", "-v"}, []Setting{
			{Name: "tls", Bare: true, Elements: []string{"--tls"}},
			{Name: "tlscert", Value: "/tls/tls.crt", Elements: []string{"--tlscert", "/tls/tls.crt"}, Certificate: true},
			{Name: "v", Bare: true, Elements: []string{"-v"}},
		}},
		"an empty value": {[]string{"--http-port="}, []Setting{{Name: "http-port", Elements: []string{"--http-port="}}}},
		"a value with equals signs": {[]string{"--x=a=b"}, []Setting{
			{Name: "x", Value: "a=b", Elements: []string{"--x=a=b"}},
		}},
		"a directory": {[]string{"--dir", "{dir}"}, []Setting{
			{Name: "dir", Value: "/tls", Elements: []string{"--dir", "/tls"}, Certificate: true},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tc.want, Settings(tc.flags, replaced))
		})
	}
}

func TestLeadsToCertificate(t *testing.T) {
	for text, want := range map[string]bool{
		"{cert}": true, "x={key}:y": true, "{combined}": true, "{dir}/x": true, "{ca}": false, "cert": false, "": false,
	} {
		assert.Equal(t, want, LeadsToCertificate(text), text)
	}
}

func TestUndashed(t *testing.T) {
	for flag, want := range map[string]string{"--a": "a", "-a": "a", "a": "a", "---a": "-a", "--": "", "--a-b": "a-b"} {
		assert.Equal(t, want, Undashed(flag), flag)
	}
}

func TestTakesCertificate(t *testing.T) {
	table := parsed(t, `
- program: web
  images: [web]
  flags: ["--web-cert={cert}", -o, "web_key={key}", "--home={dir}", "--https=on", "--tls-min=1.2"]
  env: [{name: WEB_PEM, value: "{combined}"}, {name: WEB_HOME, value: "{dir}"}, {name: WEB_TLS, value: "on"}]
  reload: itself
- {program: other, images: [other], own: [--other-cert], none: "Set --none-cert to {cert}."}
`)
	for name, want := range map[string]bool{
		"web-cert": true, "WEB_PEM": true,
		"o": false, "web_key": false, "home": false, "WEB_HOME": false, // names that do not speak of certificates
		"https": false, "tls-min": false, "WEB_TLS": false, // values that do not lead to one
		"other-cert": false, "none-cert": false,
		"tls-cert-file": true, "tls-private-key-file": true, "TLS_CERT": true, "SSL_KEY": true, // common to many
		"--web-cert": false, "": false, "verbose": false,
	} {
		assert.Equal(t, want, table.TakesCertificate(name), name)
	}
	assert.False(t, Table{}.TakesCertificate("web-cert"))
}
