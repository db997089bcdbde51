package handshake

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/servingcert/servingcert/pkg/pki"
)

// bodyLimit is the maximum number of bytes of a response that are read.
const bodyLimit = 64 << 10

// Request is a GET by the client, which trusts only its bundle.
type Request struct {
	URL string `json:"url"` // https://…
	// Address is HOST:PORT to dial instead of the URL's; empty: the URL's.
	Address string `json:"address,omitempty"`
}

// Response is the result of a Request. If Err is set, the other fields are empty.
type Response struct {
	Status int      `json:"status"`
	Body   string   `json:"body"`
	Leaf   string   `json:"leaf"` // SHA-256 of the DER, in hex
	Issuer string   `json:"issuer"`
	Names  []string `json:"names"` // the leaf's
	Err    string   `json:"err,omitempty"`
}

// Fetch makes the request over a new connection.
func (c *Client) Fetch(ctx context.Context, r Request) Response {
	response, err := c.fetch(ctx, r)
	if err != nil {
		return Response{Err: err.Error()}
	}
	return response
}

func (c *Client) fetch(ctx context.Context, r Request) (Response, error) {
	roots, err := c.trusted()
	if err != nil {
		return Response{}, err
	}
	transport := &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			if r.Address != "" {
				address = r.Address
			}
			return c.dialer.DialContext(ctx, network, address)
		},
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.URL, http.NoBody)
	if err != nil {
		return Response{}, err
	}
	response, err := (&http.Client{Transport: transport, Timeout: Timeout}).Do(request)
	if err != nil {
		return Response{}, err
	}
	defer func() { _ = response.Body.Close() }() // already read
	body, err := io.ReadAll(io.LimitReader(response.Body, bodyLimit))
	if err != nil {
		return Response{}, err
	}
	out := Response{Status: response.StatusCode, Body: strings.TrimSpace(string(body))}
	if response.TLS != nil {
		leaf := response.TLS.PeerCertificates[0]
		out.Leaf, out.Issuer, out.Names = pki.Fingerprint(leaf), leaf.Issuer.CommonName, leaf.DNSNames
	}
	return out, nil
}
