package pki

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
)

// A Visitor is how a client that observes a server presents itself. The zero Visitor has no certificate and offers no
// protocol.
type Visitor struct {
	// Certificate is presented if the server demands one; nil: none.
	Certificate *tls.Certificate
	// Protocol is the only ALPN protocol that it offers; empty: it does not use ALPN.
	Protocol string
	// Waits: Visit.Admitted is called.
	Waits bool
}

// A Visit is what a Visitor has seen of a server.
type Visit struct {
	*tls.Conn
	// Proven are the certificates of the server, the leaf first. It is nil unless the server has proved that it has the
	// leaf's key: certificates are public.
	Proven []*x509.Certificate
	// Demanded: the server demanded a client certificate.
	Demanded bool

	conn            net.Conn
	waiting, ticket bool // Admitted waits; the server has sent a session ticket
}

// Observe makes a TLS handshake with a server, to see which certificate it serves. name is the server name (SNI). The
// Visit is not nil if err is not: a server that demands a client certificate may then end the handshake. Observe
// verifies nothing, except that the server has the key of its leaf, and accepts old versions and cipher suites.
func (v Visitor) Observe(ctx context.Context, conn net.Conn, name string) (*Visit, error) {
	seen := &Visit{conn: conn}
	config := &tls.Config{
		ServerName:         name,
		InsecureSkipVerify: true, // the question is which certificate is served, not whether to trust it
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			seen.Demanded = true
			if v.Certificate != nil {
				return v.Certificate, nil
			}
			return new(tls.Certificate), nil // none
		},
		MinVersion:   tls.VersionTLS10,
		CipherSuites: allCipherSuites(),
		// CurvePreferences: the default is all groups; a server may offer post-quantum ones only.
	}
	if v.Waits {
		config.ClientSessionCache = (*tickets)(seen)
	}
	if v.Protocol != "" {
		config.NextProtos = []string{v.Protocol}
	}
	seen.Conn = tls.Client(conn, config)
	err := seen.HandshakeContext(ctx)
	if state := seen.ConnectionState(); err == nil || seen.Demanded && provesKey(state) {
		seen.Proven = state.PeerCertificates
	}
	return seen, err
}

// Admitted waits until the server has judged the client, after a handshake that has succeeded. It returns nil if the
// server has admitted the client, or the error with which the connection ended before that was seen. It is called at
// most once, and ends the connection. It sends nothing.
//
// Before TLS 1.3, and where no certificate is demanded, the handshake itself shows it. In TLS 1.3 the client ends the
// handshake first, and the server's refusal is an alert that comes later. What shows that the server has ended the
// handshake too is a session ticket, which a server that demands a certificate can make only after it has accepted that
// (RFC 8446, 4.6.1), or the first byte of the program. A server without tickets, whose program waits for the client,
// shows nothing: the time limit of the connection then ends the wait.
func (s *Visit) Admitted() error {
	if !s.Demanded || s.ConnectionState().Version < tls.VersionTLS13 {
		return nil
	}
	s.waiting = true
	n, err := s.Read(make([]byte, 1))
	if n > 0 || s.ticket {
		return nil
	}
	return err
}

// tickets is a cache of sessions that keeps none. It records that there was a ticket.
type tickets Visit

// Get implements tls.ClientSessionCache.
func (*tickets) Get(string) (*tls.ClientSessionState, bool) { return nil, false }

// Put implements tls.ClientSessionCache.
func (t *tickets) Put(_ string, session *tls.ClientSessionState) {
	if session == nil { // to be deleted
		return
	}
	if t.ticket = true; t.waiting {
		_ = t.conn.Close() // Admitted returns
	}
}

// provesKey reports whether a server that demanded a client certificate, and then ended the handshake, had proved that
// it has the key of its certificate. In TLS 1.3, crypto/tls asks for the client certificate only after it has verified
// the server's signature. In older versions a server may leave out the message with the signature, and crypto/tls sets
// the group only after it has verified that message. With RSA key exchange there is neither: only the end of the
// handshake proves the key, so such a server is not seen.
func provesKey(state tls.ConnectionState) bool {
	return state.Version >= tls.VersionTLS13 || state.CurveID != 0
}

// allCipherSuites returns all cipher suites, so that a server that supports only
// old ones still shows its certificate.
func allCipherSuites() []uint16 {
	var ids []uint16
	for _, suite := range append(tls.CipherSuites(), tls.InsecureCipherSuites()...) {
		ids = append(ids, suite.ID)
	}
	return ids
}
