//go:build linux

package programs

import (
	"crypto/x509"
	"testing"
	"time"

	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
	"github.com/servingcert/servingcert/pkg/rotator/probe/dial"
	"github.com/servingcert/servingcert/pkg/starttls"
)

// dialTime bounds one connection of several, and one to what may not answer.
const dialTime = 10 * time.Second

// serverName is the name in the certificates.
const serverName = "web.shop.svc"

// handshake dials as the rotator does, and returns the fingerprint of the leaf if it is valid for
// the server's name by the root, or else what was found instead. Both are for people too.
func handshake(t *testing.T, address string, protocol starttls.Protocol, root *x509.Certificate) (leaf, instead string) {
	t.Helper()
	return handshakeWithin(t, dialTime, address, protocol, root)
}

// handshakeWithin is handshake with another limit.
func handshakeWithin(t *testing.T, limit time.Duration, address string, protocol starttls.Protocol, root *x509.Certificate) (leaf, instead string) {
	t.Helper()
	outcome := dial.Dial(t.Context(), address, serverName, protocol, limit)
	if outcome.Kind != probe.TLS {
		return "", outcome.Label()
	}
	trusted := x509.NewCertPool()
	trusted.AddCert(root)
	if _, err := outcome.Chain[0].Verify(x509.VerifyOptions{DNSName: serverName, Roots: trusted}); err != nil {
		return "", "another certificate"
	}
	return pki.Fingerprint(outcome.Chain[0]), ""
}
