package proxy

import "slices"

// Protocols of ALPN that are treated in a way of their own.
const (
	ProtocolH2    = "h2"
	ProtocolHTTP1 = "http/1.1"
	protocolACME  = "acme-tls/1" // RFC 8737: to select it is to prove control of a name
)

// ChooseProtocol returns which of the protocols that a client offers is selected, or "" for none.
// The proxy does not know what the program speaks: a client that offers one protocol knows what it
// connects to (gRPC clients refuse a server that selects nothing), and of a client that offers
// several, HTTP/2 is selected only where the Service declares it: selected before a program that
// speaks HTTP/1.1 alone, it would break browsers and HTTPS probes.
func ChooseProtocol(offered []string, h2 bool) string {
	switch {
	case len(offered) == 1 && offered[0] != protocolACME:
		return offered[0]
	case len(offered) < 2:
		return ""
	case h2 && slices.Contains(offered, ProtocolH2):
		return ProtocolH2
	case slices.Contains(offered, ProtocolHTTP1):
		return ProtocolHTTP1
	}
	return ""
}
