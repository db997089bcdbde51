package proxy

import (
	"encoding/binary"
	"net/netip"
)

const headerSignature = "\r\n\r\n\x00\r\nQUIT\n"

// Header returns the header of the PROXY protocol, version 2, of a TCP connection from a client to
// a port of the proxy (haproxy.org, doc/proxy-protocol.txt).
func Header(client, port netip.AddrPort) []byte {
	from, to := client.Addr().Unmap(), port.Addr().Unmap()
	family := byte(0x11) // TCP over IPv4
	if !from.Is4() || !to.Is4() {
		family = 0x21 // TCP over IPv6
		from, to = netip.AddrFrom16(from.As16()), netip.AddrFrom16(to.As16())
	}
	b := append([]byte(headerSignature), 0x21, family) // version 2, PROXY
	b = binary.BigEndian.AppendUint16(b, uint16(2*from.BitLen()/8+4))
	b = append(append(b, from.AsSlice()...), to.AsSlice()...)
	b = binary.BigEndian.AppendUint16(b, client.Port())
	return binary.BigEndian.AppendUint16(b, port.Port())
}
