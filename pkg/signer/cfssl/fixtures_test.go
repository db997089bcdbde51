package cfssl

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cloudflare/cfssl/auth"
	cfsslsigner "github.com/cloudflare/cfssl/signer"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer/issue"
	"github.com/servingcert/servingcert/test/signertest"
)

// What the tests of several packages start from.
var (
	epoch        = signertest.Epoch
	clusterNames = signertest.ClusterNames
	newCA        = signertest.NewCA
	testCA       = signertest.CA
	forge        = signertest.Forge
	service      = signertest.Service
	wantedBy     = signertest.WantedBy
)

const day = signertest.Day

// plainSign signs the request with crypto/x509 only, changed by the given functions.
func plainSign(change ...signertest.Change) issue.Sign {
	return func(_ context.Context, ca *pki.Authority, request issue.SigningRequest) (*x509.Certificate, error) {
		return signertest.Sign(ca, signertest.Request(request), change...)
	}
}

// issueBy makes the pair that ca gives at a time.
func issueBy(t require.TestingT, ca *pki.Authority, wanted api.Wanted, at time.Time) issue.Issued {
	issued, err := issue.Issue(context.Background(), plainSign(), ca, wanted, at)
	require.NoError(t, err)
	return issued
}

// reasonOf returns the reason that an error gives, empty if none.
func reasonOf(err error) issue.Reason {
	var reasoned interface{ Reason() string }
	if errors.As(err, &reasoned) {
		return issue.Reason(reasoned.Reason())
	}
	return ""
}

var authKey = []byte("0123456789abcdef0123456789abcdef")

// testClock is a clock that a test sets.
type testClock struct{ nanoseconds atomic.Int64 }

func (c *testClock) now() time.Time          { return epoch.Add(time.Duration(c.nanoseconds.Load())) }
func (c *testClock) advance(d time.Duration) { c.nanoseconds.Add(int64(d)) }

// remoteServer is a test's cfssl server.
type remoteServer struct {
	*httptest.Server
	asked atomic.Int32
}

func serve(t *testing.T, handler http.HandlerFunc, change ...func(*tls.Config)) *remoteServer {
	s := &remoteServer{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.asked.Add(1)
		handler(w, r)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.TLS = &tls.Config{}
	for _, f := range change {
		f(s.TLS)
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// remoteAt returns a Remote that asks the servers in turn, and its clock.
func remoteAt(t *testing.T, servers []*remoteServer, change ...func(*RemoteConfig)) (*Remote, *testClock) {
	clock, trusted := &testClock{}, x509.NewCertPool()
	cfg := RemoteConfig{ServerCAs: trusted, AuthKey: authKey, Profile: "web", ProfileRSA: "web-rsa", Label: "one-of-many", Timeout: process.Soon, Clock: clock.now}
	for _, s := range servers {
		trusted.AddCert(s.Certificate())
		cfg.URLs = append(cfg.URLs, s.URL)
	}
	for _, f := range change {
		f(&cfg)
	}
	remote, err := NewRemote(cfg)
	require.NoError(t, err)
	return remote, clock
}

// answer gives every request the same answer.
func answer(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}
}

// success wraps a result as cfssl does.
func success(result any) string {
	body, _ := json.Marshal(map[string]any{"success": true, "result": result, "errors": []string{}, "messages": []string{}})
	return string(body)
}

func refusal(message string) string {
	return fmt.Sprintf(`{"success":false,"result":null,"errors":[{"code":400,"message":%q}],"messages":[]}`, message)
}

// signs is a server that verifies the HMAC and signs by plainSign.
func signs(ca *pki.Authority, change ...func(*x509.Certificate, *pki.Authority)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		request, err := readSignRequest(r)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, refusal(err.Error()))
			return
		}
		leaf, err := plainSign(change...)(r.Context(), ca, request)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, refusal(err.Error()))
			return
		}
		fmt.Fprint(w, success(map[string]any{"certificate": string(pki.EncodeCertificates(leaf))}))
	}
}

// readSignRequest reads a request as a cfssl server with authKey does.
func readSignRequest(r *http.Request) (issue.SigningRequest, error) {
	var outer auth.AuthenticatedRequest
	var inner cfsslsigner.SignRequest
	if err := json.NewDecoder(r.Body).Decode(&outer); err != nil {
		return issue.SigningRequest{}, err
	}
	provider, err := auth.New(hex.EncodeToString(authKey), nil)
	if err != nil {
		return issue.SigningRequest{}, err
	}
	if r.URL.Path != "/api/v1/cfssl/authsign" || !provider.Verify(&outer) {
		return issue.SigningRequest{}, fmt.Errorf("invalid token")
	}
	if err := json.Unmarshal(outer.Request, &inner); err != nil {
		return issue.SigningRequest{}, err
	}
	request := issue.SigningRequest{CSR: []byte(inner.Request), NotBefore: inner.NotBefore, NotAfter: inner.NotAfter}
	for _, host := range inner.Hosts {
		if ip, err := netip.ParseAddr(host); err == nil {
			request.IPs = append(request.IPs, ip)
		} else {
			request.DNSNames = append(request.DNSNames, host)
		}
	}
	block, _ := pem.Decode(request.CSR)
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return issue.SigningRequest{}, err
	}
	request.KeyAlgorithm, _ = pki.AlgorithmOf(csr.PublicKey)
	if want := map[bool]string{false: "web", true: "web-rsa"}[request.KeyAlgorithm.IsRSA()]; inner.Profile != want || inner.Label != "one-of-many" {
		return issue.SigningRequest{}, fmt.Errorf("profile %q, want %q; label %q", inner.Profile, want, inner.Label)
	}
	return request, nil
}

// withoutKey returns the CA without its key.
func withoutKey(ca *pki.Authority) *pki.Authority {
	out := *ca
	out.Key = nil
	return &out
}

func endless(w http.ResponseWriter, r *http.Request) {
	for chunk := slices.Repeat([]byte(" "), 64<<10); r.Context().Err() == nil; {
		if _, err := w.Write(chunk); err != nil {
			return
		}
	}
}

func manyHeaders(w http.ResponseWriter, _ *http.Request) {
	for i := range 100 {
		w.Header().Set(fmt.Sprint("X-", i), string(slices.Repeat([]byte("x"), 1000)))
	}
}

// reset closes the connection so that the client's error contains the ports of both ends.
func reset(w http.ResponseWriter, _ *http.Request) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		_ = conn.(*tls.Conn).NetConn().(*net.TCPConn).SetLinger(0)
		_ = conn.(*tls.Conn).NetConn().Close()
	}
}

func hangUp(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

func beginAndHangUp(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "1000")
	fmt.Fprint(w, `{"success": true,`)
	panic(http.ErrAbortHandler)
}
