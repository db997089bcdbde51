package proxy

import (
	"encoding/binary"
	"strings"
)

// A Way is how the bytes of a client leave the pod.
type Way int

// Ways of outbound connections. On each of them the server sees TLS from the first byte.
const (
	WayUndecided Way = iota // more bytes are needed
	WayTLS                  // in TLS without ALPN
	WayH2                   // in TLS with ALPN h2, which servers of gRPC require
	WayThrough              // unchanged: the client speaks TLS itself
)

// WayBytes is the maximum number of bytes that ChooseWay needs.
const WayBytes = 11

// ChooseWay returns the way of an outbound connection that begins with b. Bytes that are passed through unchanged leave
// the pod without the proxy's encryption, so WayThrough takes more than Look needs: 11 bytes that only a ClientHello
// has. Everything else is wrapped in TLS, which is never less safe.
//
// That includes PostgreSQL's SSLRequest. It is sent in plaintext, and what follows is certain only after the server's
// answer of one byte, which anybody on the way can forge: after N, a client with sslmode=prefer, the default, goes on
// in plaintext. In TLS, the server behind it answers N, and the client goes on in plaintext inside TLS. A client with
// sslmode=require ends the connection.
func ChooseWay(b []byte) Way {
	switch {
	case len(b) == 0 || beginsHello(b) && len(b) < WayBytes:
		return WayUndecided
	case beginsHello(b):
		return WayThrough
	case len(b) < len(h2Preface) && strings.HasPrefix(h2Preface, string(b)):
		return WayUndecided
	case strings.HasPrefix(string(b), h2Preface):
		return WayH2
	}
	return WayTLS
}

// beginsHello reports whether b is the beginning of a ClientHello in a record (RFC 8446, 5.1 and 4.1.2), or so far may
// be: 16 03 01..04, length of the record, 01, length of the message, 03 01..03.
func beginsHello(b []byte) bool {
	for i, c := range b[:min(len(b), WayBytes)] {
		var ok bool
		switch i {
		case 0:
			ok = c == 0x16
		case 1, 9:
			ok = c == 3
		case 2:
			ok = 1 <= c && c <= 4
		case 5:
			ok = c == 1
		case 6:
			ok = c == 0 // no ClientHello has 64 KiB
		case 10:
			ok = 1 <= c && c <= 3
		default:
			ok = true
		}
		if !ok {
			return false
		}
	}
	if len(b) < 9 {
		return true
	}
	record, message := int(binary.BigEndian.Uint16(b[3:])), int(binary.BigEndian.Uint16(b[7:]))
	return message >= leastHello && record <= message+4 && record > WayBytes-5 // a message may be split into records
}

// leastHello is the size of a ClientHello with one cipher suite, without a session and extensions.
const leastHello = 2 + 32 + 1 + 2 + 2 + 2
