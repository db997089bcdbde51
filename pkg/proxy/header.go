package proxy

import (
	"crypto/tls"
	"encoding/binary"
	"net/netip"

	"github.com/servingcert/servingcert/pkg/pki"
)

const headerSignature = "\r\n\r\n\x00\r\nQUIT\n"

// Types and flags of the PROXY protocol.
const (
	typeSSL       = 0x20
	subtypeTLS    = 0x21 // the version of TLS
	typeIdentity  = 0xe0 // the first that is reserved for applications
	clientSSL     = 0x01 // the client connected over TLS
	clientConn    = 0x02 // and presented a certificate in this connection
	clientSession = 0x04 // or in an earlier one of the session
)

// Header returns the header of the PROXY protocol, version 2, of a TCP connection from a client to
// a port of the proxy (haproxy.org, doc/proxy-protocol.txt). more are fields that follow the addresses.
func Header(client, port netip.AddrPort, more ...byte) []byte {
	from, to := client.Addr().Unmap(), port.Addr().Unmap()
	family := byte(0x11) // TCP over IPv4
	if !from.Is4() || !to.Is4() {
		family = 0x21 // TCP over IPv6
		from, to = netip.AddrFrom16(from.As16()), netip.AddrFrom16(to.As16())
	}
	b := append([]byte(headerSignature), 0x21, family) // version 2, PROXY
	b = binary.BigEndian.AppendUint16(b, uint16(2*from.BitLen()/8+4+len(more)))
	b = append(append(b, from.AsSlice()...), to.AsSlice()...)
	b = binary.BigEndian.AppendUint16(b, client.Port())
	b = binary.BigEndian.AppendUint16(b, port.Port())
	return append(b, more...)
}

// HeaderIdentity returns the fields of a Header for a client whose identity was verified: PP2_TYPE_SSL
// with the version of TLS, and the identity as a URI, in the first type for applications. resumed means
// that the client presented its certificate in an earlier connection of the session.
func HeaderIdentity(id pki.SPIFFEID, version uint16, resumed bool) []byte {
	flags := byte(clientSSL | clientConn | clientSession)
	if resumed {
		flags = clientSSL | clientSession
	}
	ssl := []byte{flags, 0, 0, 0, 0} // 0: verified
	ssl = field(ssl, subtypeTLS, versionName(version))
	return field(field(nil, typeSSL, string(ssl)), typeIdentity, id.String())
}

// field appends a type, a length and a value.
func field(b []byte, kind byte, value string) []byte {
	b = binary.BigEndian.AppendUint16(append(b, kind), uint16(len(value))) //nolint:gosec // at most that of an ID
	return append(b, value...)
}

// versionName returns the name of a version in OpenSSL, as HAProxy writes it.
func versionName(version uint16) string {
	if version == tls.VersionTLS12 {
		return "TLSv1.2"
	}
	return "TLSv1.3"
}
