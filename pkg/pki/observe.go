package pki

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
)

// Observe makes a TLS handshake with a server, to see which certificate it serves. name is the server name (SNI).
// proven are the certificates of the server, the leaf first. It is nil unless the server has proved that it has the
// leaf's key: certificates are public. It may not be nil if err is not, because a server that demands a client
// certificate then ends the handshake. Observe verifies nothing else, and accepts old versions and cipher suites.
func Observe(ctx context.Context, conn net.Conn, name string) (client *tls.Conn, proven []*x509.Certificate, err error) {
	demanded := false // the server demands a client certificate
	client = tls.Client(conn, &tls.Config{
		ServerName:         name,
		InsecureSkipVerify: true, // the question is which certificate is served, not whether to trust it
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			demanded = true
			return new(tls.Certificate), nil // none
		},
		MinVersion:   tls.VersionTLS10,
		CipherSuites: allCipherSuites(),
		// CurvePreferences: the default is all groups; a server may offer post-quantum ones only.
	})
	err = client.HandshakeContext(ctx)
	if state := client.ConnectionState(); err == nil || demanded && provesKey(state) {
		proven = state.PeerCertificates
	}
	return client, proven, err
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
