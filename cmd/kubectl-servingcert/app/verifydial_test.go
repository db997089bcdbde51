package app

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/hack/process"
)

// fetch gets the certificates as the rotator does, also from a server that requires a client
// certificate or supports only old versions of TLS.
func TestFetchAsTheRotator(t *testing.T) {
	for name, change := range map[string]func(*tls.Config){
		"client certificate, TLS 1.2": func(c *tls.Config) { c.ClientAuth, c.MaxVersion = tls.RequireAnyClientCert, tls.VersionTLS12 },
		"client certificate, TLS 1.3": func(c *tls.Config) { c.ClientAuth = tls.RequireAnyClientCert },
		"TLS 1.0":                     func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS10 },
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewUnstartedServer(http.NotFoundHandler())
			server.TLS = &tls.Config{}
			change(server.TLS)
			server.StartTLS()
			t.Cleanup(server.Close)
			got := fetch(t.Context(), server.Listener.Addr().String(), "web.shop.svc", "", process.Soon)
			require.NoError(t, got.Err)
			assert.Equal(t, []*x509.Certificate{server.Certificate()}, got.Chain)
		})
	}
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	assert.Error(t, fetch(t.Context(), plain.Listener.Addr().String(), "web.shop.svc", "", process.Soon).Err)
}
