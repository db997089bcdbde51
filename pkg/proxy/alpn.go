package proxy

import "slices"

// ALPN protocols with a special treatment.
const (
	ProtocolH2    = "h2"
	ProtocolHTTP1 = "http/1.1"
	protocolACME  = "acme-tls/1" // RFC 8737: selecting it proves control of a name
)

// ChooseProtocol returns the protocol to select from those that a client offers, or "" for none. The
// proxy does not know which protocols the program speaks. If a client offers only one, that one is
// selected, because gRPC clients refuse a server that selects none. If it offers several, HTTP/2 is
// selected only if the Service declares it: browsers and HTTPS probes would otherwise speak HTTP/2 to
// a program that speaks only HTTP/1.1.
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
