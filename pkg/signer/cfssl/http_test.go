package cfssl

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer/issue"
)

func TestRemoteConfigErrorsNameTheFlag(t *testing.T) {
	root, leaf := testCA(t).Certificate, issueBy(t, testCA(t), wantedBy(service("web")), epoch).Leaf
	for name, c := range map[string]struct {
		change func(c *RemoteConfig)
		want   string
	}{
		"complete":       {func(*RemoteConfig) {}, ""},
		"two servers":    {func(c *RemoteConfig) { c.URLs = append(c.URLs, "https://[::1]:8888/below") }, ""},
		"a root":         {func(c *RemoteConfig) { c.Bundle = []*x509.Certificate{root} }, ""},
		"no server":      {func(c *RemoteConfig) { c.URLs = nil }, "--cfssl-url: must name at least one"},
		"twice":          {func(c *RemoteConfig) { c.URLs = append(c.URLs, c.URLs[0]) }, "--cfssl-url: \"https://ca.example.com\": given twice"},
		"http":           {func(c *RemoteConfig) { c.URLs[0] = "http://ca.example.com" }, `--cfssl-url: "http://ca.example.com": must be https://HOST[:PORT]`},
		"no scheme":      {func(c *RemoteConfig) { c.URLs[0] = "ca.example.com:8888" }, "--cfssl-url: \"ca.example.com:8888\": must be https://"},
		"no host":        {func(c *RemoteConfig) { c.URLs[0] = "https://:8888" }, "--cfssl-url: \"https://:8888\": must be https://"},
		"empty":          {func(c *RemoteConfig) { c.URLs[0] = "" }, "--cfssl-url: \"\": must be https://"},
		"a password":     {func(c *RemoteConfig) { c.URLs[0] = "https://me:hunter2@ca.example.com" }, "without user, query or fragment"},
		"an odd one":     {func(c *RemoteConfig) { c.URLs[0] = "https://me:hunter2 @ca.example.com" }, "--cfssl-url: a value is not a valid URL"},
		"a query":        {func(c *RemoteConfig) { c.URLs[0] = "https://ca.example.com?a=b" }, "without user, query or fragment"},
		"no key":         {func(c *RemoteConfig) { c.AuthKey = nil }, "--cfssl-auth-key-file: the key has 0 bytes, must have at least 32"},
		"a short key":    {func(c *RemoteConfig) { c.AuthKey = c.AuthKey[:31] }, "--cfssl-auth-key-file: the key has 31 bytes"},
		"no profile":     {func(c *RemoteConfig) { c.Profile = "" }, "--cfssl-profile: must not be empty"},
		"no RSA profile": {func(c *RemoteConfig) { c.ProfileRSA = "" }, "--cfssl-profile-rsa: must not be empty"},
		"no timeout":     {func(c *RemoteConfig) { c.Timeout = 0 }, `--cfssl-timeout: "0s": must be positive`},
		"no root":        {func(c *RemoteConfig) { c.Bundle = []*x509.Certificate{leaf} }, "--cfssl-bundle: has no root"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := RemoteConfig{URLs: []string{"https://ca.example.com"}, AuthKey: authKey, Profile: "web", ProfileRSA: "web-rsa", Timeout: time.Second, Clock: time.Now}
			c.change(&cfg)
			_, err := NewRemote(cfg)
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.want)
			assert.NotContains(t, err.Error(), "hunter2")
		})
	}
}

func TestParseAuthKey(t *testing.T) {
	const digits = "00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF"
	for _, good := range []string{digits, digits + "\n", "  " + digits + "\r\n", digits + "00"} {
		key, err := ParseAuthKey([]byte(good))
		require.NoError(t, err)
		assert.GreaterOrEqual(t, len(key), 32)
		assert.Equal(t, []byte{0x00, 0x11, 0x22}, key[:3])
	}
	for _, bad := range []string{"", "\n", digits[2:], digits + "0", digits + "zz", "env:KEY", "file:/key", `"` + digits + `"`, string(authKey)} {
		key, err := ParseAuthKey([]byte(bad))
		require.ErrorContains(t, err, "must be the key in hex", bad)
		assert.Nil(t, key)
		if bad != "" {
			assert.NotContains(t, err.Error(), bad)
		}
	}
}

func TestRemoteVerifiesTheServer(t *testing.T) {
	ca := testCA(t)
	t.Run("a certificate by another CA", func(t *testing.T) {
		server := serve(t, signs(ca))
		remote, _ := remoteAt(t, []*remoteServer{server}, func(c *RemoteConfig) { c.ServerCAs = x509.NewCertPool() })
		err := sign(t, remote, ca)
		require.ErrorContains(t, err, "certificate signed by unknown authority")
		assert.Equal(t, issue.ReasonUnreachable, reasonOf(err))
		assert.Zero(t, server.asked.Load())
		_, err = remote.Info(context.Background())
		assert.Equal(t, issue.ReasonUnreachable, reasonOf(err))
	})
	t.Run("another name", func(t *testing.T) {
		server := serve(t, signs(ca))
		remote, _ := remoteAt(t, []*remoteServer{server}, func(c *RemoteConfig) {
			c.URLs[0] = fmt.Sprintf("https://localhost:%s", server.URL[len("https://127.0.0.1:"):])
		})
		assert.ErrorContains(t, sign(t, remote, ca), "certificate is valid for example.com, *.example.com, not localhost")
		assert.Zero(t, server.asked.Load())
	})
	t.Run("a redirect elsewhere", func(t *testing.T) {
		other := serve(t, signs(ca))
		for _, status := range []int{http.StatusMovedPermanently, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
			server := serve(t, http.RedirectHandler(other.URL+"/api/v1/cfssl/authsign", status).ServeHTTP)
			remote, _ := remoteAt(t, []*remoteServer{server}, func(c *RemoteConfig) { c.ServerCAs.AddCert(other.Certificate()) })
			require.ErrorContains(t, sign(t, remote, ca), "redirects are not followed")
		}
		assert.Zero(t, other.asked.Load())
	})
	t.Run("TLS 1.1", func(t *testing.T) {
		server := serve(t, signs(ca), func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 })
		remote, _ := remoteAt(t, []*remoteServer{server})
		assert.Equal(t, issue.ReasonUnreachable, reasonOf(sign(t, remote, ca)))
	})
}

func TestRemoteShowsItsCertificate(t *testing.T) {
	ca, subjects := testCA(t), make(chan int, 1)
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		subjects <- len(r.TLS.PeerCertificates)
		signs(ca)(w, r)
	}, func(c *tls.Config) { c.ClientAuth = tls.RequireAnyClientCert })
	remote, _ := remoteAt(t, []*remoteServer{server})
	require.Equal(t, issue.ReasonUnreachable, reasonOf(sign(t, remote, ca)))

	pair := issueBy(t, ca, wantedBy(service("web")), epoch)
	remote, _ = remoteAt(t, []*remoteServer{server}, func(c *RemoteConfig) {
		c.ClientCertificate = func() (*tls.Certificate, error) {
			cert, err := tls.X509KeyPair(pair.CertPEM, pair.KeyPEM)
			return &cert, err
		}
	})
	require.NoError(t, sign(t, remote, ca))
	assert.Equal(t, 1, <-subjects)
	remote, _ = remoteAt(t, []*remoteServer{server}, func(c *RemoteConfig) {
		c.ClientCertificate = func() (*tls.Certificate, error) { return nil, assert.AnError }
	})
	assert.ErrorContains(t, sign(t, remote, ca), assert.AnError.Error())
}

// A slow server takes no longer than the timeout, whatever part of the response is slow.
func TestRemoteDoesNotWait(t *testing.T) {
	ca := testCA(t)
	for name, begin := range map[string]string{"the answer": "", "its end": `{"success":`} {
		t.Run(name, func(t *testing.T) {
			over := make(chan struct{})
			server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprint(w, begin)
				if begin != "" {
					assert.NoError(t, http.NewResponseController(w).Flush())
				}
				<-over
			})
			t.Cleanup(func() { close(over) }) // before the server closes, which waits
			remote, _ := remoteAt(t, []*remoteServer{server}, func(c *RemoteConfig) { c.Timeout = 100 * time.Millisecond })
			err := sign(t, remote, ca)
			require.ErrorContains(t, err, server.URL+": no answer within 100ms")
			assert.Equal(t, issue.ReasonUnreachable, reasonOf(err))
			assert.EqualError(t, remote.Available(), server.URL+": no answer within 100ms")
		})
	}
}

func TestRemoteLimitsTheAnswer(t *testing.T) {
	sent := make(chan int, 1)
	server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		n := 0
		for chunk := make([]byte, 64<<10); n < 256<<20; n += len(chunk) {
			if _, err := w.Write(chunk); err != nil {
				break
			}
		}
		sent <- n
	})
	remote, _ := remoteAt(t, []*remoteServer{server})
	require.ErrorContains(t, sign(t, remote, testCA(t)), "longer than the allowed 262144 bytes")
	assert.Less(t, <-sent, 64<<20, "what the system buffers on the way aside, the rest is not taken")
}

// Connections are reused, and an idle one that the server has closed is not a failure of the server.
func TestRemoteKeepsConnections(t *testing.T) {
	ca, addresses, leave := testCA(t), map[string]bool{}, false
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if addresses[r.RemoteAddr] && leave {
			panic(http.ErrAbortHandler) // after the request was sent on it
		}
		addresses[r.RemoteAddr] = true
		signs(ca)(w, r)
	})
	remote, _ := remoteAt(t, []*remoteServer{server})
	for range 3 {
		require.NoError(t, sign(t, remote, ca))
	}
	require.Len(t, addresses, 1)
	leave = true
	require.NoError(t, sign(t, remote, ca))
	assert.Len(t, addresses, 2)
	assert.EqualValues(t, 5, server.asked.Load())
}

func TestRemoteStopsWithItsContext(t *testing.T) {
	ca, asked := testCA(t), make(chan struct{}, 1)
	server := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(io.Discard, r.Body) // net/http detects that the client is gone only after this
		assert.NoError(t, err)
		asked <- struct{}{}
		<-r.Context().Done()
	})
	remote, _ := remoteAt(t, []*remoteServer{server})
	ctx, cancel := context.WithCancel(context.Background())
	go func() { <-asked; cancel() }()
	_, err := remote.Sign(ctx, withoutKey(ca), requestFor(t, pki.ECDSAP256, &x509.CertificateRequest{}))
	require.ErrorIs(t, err, context.Canceled)
	assert.NoError(t, remote.Available(), "which says nothing about the server")
}
