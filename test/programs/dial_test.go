//go:build linux

package programs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"time"

	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
)

// dialTime bounds one connection.
const dialTime = 10 * time.Second

// serverName is the name in the certificates.
const serverName = "web.shop.svc"

// errPlaintext is what a server answers to the question for TLS that offers none.
var errPlaintext = errors.New("it does not offer TLS")

// handshake makes a connection and a TLS handshake, and returns the fingerprint of the leaf
// if it is valid for the server's name by the root, or else what was found instead. Both
// are for people too.
func handshake(address string, hello func(net.Conn) error, root *x509.Certificate) (leaf, instead string) {
	ctx, cancel := context.WithTimeout(context.Background(), dialTime)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return "", probe.Unreachable(err).Label()
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(dialTime)); err != nil {
		return "", err.Error()
	}
	if hello != nil {
		if err := hello(conn); errors.Is(err, errPlaintext) {
			return "", string(probe.Plaintext)
		} else if err != nil {
			return "", probe.Unreachable(err).Label()
		}
	}
	trusted := x509.NewCertPool()
	trusted.AddCert(root)
	client := tls.Client(conn, &tls.Config{ServerName: serverName, RootCAs: trusted})
	err = client.HandshakeContext(ctx)
	var wrong *tls.CertificateVerificationError
	switch {
	case errors.As(err, &wrong):
		return "", "another certificate"
	case err != nil:
		return "", probe.Judge(nil, err).Label()
	}
	leaf = pki.Fingerprint(client.ConnectionState().PeerCertificates[0])
	_ = client.Close() // sends close_notify, so that servers log no error
	return leaf, ""
}
