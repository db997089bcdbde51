package server

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"strings"

	"github.com/servingcert/servingcert/pkg/proxy"
)

// caller is who a client is, as far as a guarded port needs to know. It is all that is kept of its certificates.
type caller struct {
	proxy.Caller
	version uint16 // of TLS
	resumed bool
}

var (
	uncertified = &caller{Caller: proxy.Caller{Without: proxy.NoCertificate}}
	unencrypted = &caller{Caller: proxy.Caller{Without: proxy.Unencrypted}}
)

// refusal is the error of a handshake with a client that is not admitted.
type refusal struct {
	caller proxy.Caller
	reason proxy.Reason
	err    error // why the certificate is not valid
}

func (r *refusal) Error() string { return "the client is not admitted: " + string(r.reason) }

// guard returns who may use a port, or nil if the port is not guarded.
func (s *Server) guard(p *port) *proxy.Guard {
	if s.admission == nil || p.out != nil {
		return nil
	}
	return s.admission.current.Load().Guard(p.Name)
}

// allowsPlaintext reports whether plaintext is forwarded: it has no identity.
func (c *conn) allowsPlaintext() bool {
	guard := c.server.guard(c.port)
	return c.port.Plaintext && (guard == nil || guard.Watch)
}

var errStapled = errors.New("the client's certificate has data of an OCSP responder or a log")

// verify judges a client by its certificates, in the handshake, also if they were presented in an earlier connection
// of the session. A client whose certificates are not those of the session has yet to prove that it has the key.
func (c *conn) verify(state tls.ConnectionState) error {
	if len(state.OCSPResponse)+len(state.SignedCertificateTimestamps) > 0 {
		return errStapled // crypto/tls would keep them
	}
	who, err := c.server.clientRoots.current.Load().Caller(state.PeerCertificates, c.server.cfg.Clock())
	strip(state.PeerCertificates)
	c.presented = &caller{who, state.Version, state.DidResume}
	guard := c.server.guard(c.port)
	if guard == nil || guard.Watch {
		return nil
	}
	if reason := guard.Judge(who); reason != "" {
		return &refusal{who, reason, err}
	}
	return nil
}

// strip replaces certificates, which crypto/tls keeps as long as the connection, by what the rest of the handshake
// needs: the key, and the bytes for the ticket. Parsed, the certificates of a malicious client may be ten times as large.
func strip(certs []*x509.Certificate) {
	for i, c := range certs {
		certs[i] = &x509.Certificate{Raw: c.Raw, PublicKey: c.PublicKey}
	}
}

// stripped is what is left of a certificate after the handshake.
var stripped = &x509.Certificate{}

// isNoCertificate reports whether crypto/tls has refused a client without a certificate, with an alert that says so.
func isNoCertificate(err error) bool {
	return strings.Contains(err.Error(), "client didn't provide a certificate")
}

// identify judges a client whose handshake is completed: it is known now who it is. It returns false if the client is
// not admitted, or only looks (proxy.ProbeProtocol).
func (c *conn) identify() bool {
	if c.client.transport.probes {
		c.port.counters.probes.Add(1)
		return false
	}
	if c.client.transport.verify == nil { // no certificate was requested
		return c.settle(uncertified)
	}
	c.client.transport.verify = nil
	certs := c.client.tls.ConnectionState().PeerCertificates
	for i := range certs {
		certs[i] = stripped
	}
	who := cmp.Or(c.presented, uncertified)
	c.presented = nil
	return c.settle(who)
}

// settle records who the client is, and judges it by the list that is in force now: enforce, which is called after a
// change of the list, skips connections whose client is not known yet.
func (c *conn) settle(who *caller) bool {
	c.who.Store(who)
	guard := c.server.guard(c.port)
	if guard == nil {
		return true
	}
	reason := guard.Judge(who.Caller)
	if reason != "" && !guard.Watch {
		c.dismiss(reason)
		c.refuse()
		return false
	}
	c.server.called(c, reason)
	return true
}

// dismiss counts that a connection ends because its client is not admitted any more. It returns false if that was
// done before.
func (c *conn) dismiss(reason proxy.Reason) bool {
	first := c.dismissed.CompareAndSwap(false, true)
	if first {
		c.server.refused(c, c.who.Load().Caller, reason, nil)
	}
	return first
}

// enforce ends the connections of clients that are no longer admitted, after a change of the list.
func (s *Server) enforce() {
	s.clientsMu.Lock()
	s.clients.Guard(s.cfg.Clock(), s.cfg.Ports, s.admission.current.Load())
	s.clientsMu.Unlock()
	for _, c := range s.conns.all() {
		who, guard := c.who.Load(), s.guard(c.port)
		if who == nil || guard == nil || guard.Watch {
			continue
		}
		if reason := guard.Judge(who.Caller); reason != "" && c.dismiss(reason) {
			c.kill(true) // what the client has received is not complete
		}
	}
}
