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

// look makes a TLS handshake with the address of a check, and returns the certificate that it serves.
// It verifies nothing: what is asked is which certificate it is.
func look(ctx context.Context, c *hostfiles.Check) hostfiles.Served {
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
	if leaf != nil { // a server that wants a certificate of the client has shown its own
		return hostfiles.Served{Fingerprint: pki.Fingerprint(leaf)}
	}
	if err == nil {
		err = errors.New("no certificate was served")
	}
	return hostfiles.Served{Failure: err.Error()}
}
