package hostsync

import (
	"context"
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
	seen, err := pki.Visitor{}.Observe(ctx, conn, c.ServerName)
	if len(seen.Proven) == 0 {
		return hostfiles.Served{Failure: err.Error()}
	}
	return hostfiles.Served{Fingerprint: pki.Fingerprint(seen.Proven[0])}
}
