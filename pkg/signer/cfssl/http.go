package cfssl

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/servingcert/servingcert/pkg/signer/issue"
	"github.com/servingcert/servingcert/pkg/signer/remote"
)

// Limits of the bytes of an answer. A certificate has about 2 KiB.
const (
	maxAnswer        = 256 << 10
	maxAnswerHeaders = 64 << 10
	// maxIdleConnections is the most idle connections to a server: one for each of the default
	// number of workers.
	maxIdleConnections = 8
)

// server is one of the servers of a CA.
type server struct {
	name    string // the value of the flag
	base    *url.URL
	client  *http.Client
	timeout time.Duration
	breaker remote.Breaker
}

// serverURL parses the URL of a server. It rejects all parts that are not needed, so that
// messages cannot contain a secret.
func serverURL(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil: // it quotes the URL, which may hold a password
		return nil, errors.New("a value is not a valid URL, must be https://HOST[:PORT]")
	case u.Scheme != "https" || u.Hostname() == "":
		return nil, fmt.Errorf("%.200q: must be https://HOST[:PORT]: only HTTPS authenticates the server", u.Redacted())
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("%.200q: must be https://HOST[:PORT], without user, query or fragment", u.Redacted())
	}
	return u, nil
}

// newHTTPClient returns the client for all servers. It does not follow redirects: only the
// configured servers are used.
func newHTTPClient(cfg RemoteConfig) *http.Client {
	tlsConfig := &tls.Config{RootCAs: cfg.ServerCAs, MinVersion: tls.VersionTLS12}
	if cfg.ClientCertificate != nil {
		tlsConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return cfg.ClientCertificate()
		}
	}
	return &http.Client{
		Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            (&net.Dialer{Timeout: cfg.Timeout}).DialContext,
			TLSClientConfig:        tlsConfig,
			TLSHandshakeTimeout:    cfg.Timeout,
			MaxIdleConnsPerHost:    maxIdleConnections,
			IdleConnTimeout:        time.Minute,
			MaxResponseHeaderBytes: maxAnswerHeaders,
			DisableCompression:     true, // maxAnswer is for the uncompressed answer
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// post sends a request of cfssl's protocol and returns the result.
func (s *server) post(ctx context.Context, endpoint string, body []byte) (json.RawMessage, *Error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	target := s.base.JoinPath("api/v1/cfssl", endpoint).String()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		return nil, unreachable(err, s.timeout)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "servingcert-signer")
	// An empty list is not sent, but permits the transport to retry if the server has closed an
	// idle connection. If both are signed, the first certificate is lost.
	request.Header["Idempotency-Key"] = []string{}
	response, err := s.client.Do(request)
	if err != nil {
		return nil, unreachable(err, s.timeout)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, unreachable(err, s.timeout)
	case len(answer) > maxAnswer:
		return nil, remote.NewError(issue.ReasonCAAnswer, "the answer is longer than the allowed %d bytes", maxAnswer)
	case response.StatusCode >= 300 && response.StatusCode < 400:
		return nil, remote.NewError(issue.ReasonCAAnswer, "answered with a redirect to %.100q: redirects are not followed; use the URL of the server itself", response.Header.Get("Location"))
	}
	return readAnswer(response.StatusCode, target, answer)
}

// readAnswer returns the result in an answer of cfssl's protocol.
func readAnswer(status int, target string, body []byte) (json.RawMessage, *Error) {
	var answer struct {
		Success bool            `json:"success"`
		Result  json.RawMessage `json:"result"`
		Errors  []struct {
			Code    int    `json:"code"`
			Message string `json:"message"`
		} `json:"errors"`
	}
	err := json.Unmarshal(body, &answer)
	switch said := err == nil && !answer.Success && len(answer.Errors) > 0; {
	case status >= http.StatusInternalServerError && said:
		return nil, remote.NewError(issue.ReasonUnreachable, "answered with status %d: %q", status, answer.Errors[0].Message)
	case status >= http.StatusInternalServerError:
		return nil, remote.NewError(issue.ReasonUnreachable, "answered with status %d", status)
	case said:
		return nil, remote.NewError(issue.ReasonCARefused, "refused: %q (code %d, status %d)", answer.Errors[0].Message, answer.Errors[0].Code, status)
	case status != http.StatusOK:
		return nil, remote.NewError(issue.ReasonCAAnswer, "answered with status %d, but not in the cfssl protocol: check that %s is the right URL and that the endpoint is enabled", status, target)
	case err != nil || !answer.Success:
		return nil, remote.NewError(issue.ReasonCAAnswer, "answered, but not in the cfssl protocol")
	}
	return answer.Result, nil
}
