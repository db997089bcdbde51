package hostsync

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"

	"github.com/servingcert/servingcert/pkg/hostfiles"
	"github.com/servingcert/servingcert/pkg/pki"
)

// observe makes a TLS handshake with the address of a check, and returns the served certificate. It does not
// verify the certificate, because only its fingerprint matters.
func observe(ctx context.Context, c *hostfiles.Check) hostfiles.Served {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", c.Address)
	if err != nil {
		return hostfiles.Served{Failure: err.Error()}
	}
	defer conn.Close()
	var leaf *x509.Certificate
	client := tls.Client(conn, &tls.Config{
		ServerName:         c.ServerName,
		InsecureSkipVerify: true, //nolint:gosec // the fingerprint is compared
		VerifyConnection: func(state tls.ConnectionState) error {
			leaf = state.PeerCertificates[0]
			return nil
		},
	})
	err = client.HandshakeContext(ctx)
	if leaf != nil { // even if the server then required a client certificate
		return hostfiles.Served{Fingerprint: pki.Fingerprint(leaf)}
	}
	if err == nil {
		err = errors.New("no certificate was served")
	}
	return hostfiles.Served{Failure: err.Error()}
}
