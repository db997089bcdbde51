package proxy

import (
	"bytes"
	"strings"
)

// A Kind is the protocol that a connection begins with.
type Kind string

// Kinds of connections. The kinds of plaintext appear in a ClientList.
const (
	KindUndecided Kind = ""         // more bytes are needed
	KindTLS       Kind = "tls"      // a ClientHello
	KindSSL       Kind = "ssl"      // PostgreSQL's SSLRequest: TLS begins after the answer
	KindGSS       Kind = "gss"      // PostgreSQL's GSSENCRequest: the client continues after a refusal
	KindHTTP      Kind = "http"     // a request line of HTTP/1
	KindH2        Kind = "h2"       // the preface of HTTP/2, also of gRPC
	KindPostgres  Kind = "postgres" // PostgreSQL's startup or cancel message
	KindOther     Kind = "other"    // anything else
	KindSilent    Kind = "silent"   // the program sent the first byte
	KindUnknown   Kind = "unknown"  // open for longer than a handshake may take, and neither side has begun
)

// FirstBytes is the maximum number of bytes that Look needs.
const FirstBytes = 8

// First bytes of PostgreSQL's clients: length and code (protocol-message-formats.html).
const (
	sslRequest     = "\x00\x00\x00\x08\x04\xd2\x16\x2f"
	gssEncRequest  = "\x00\x00\x00\x08\x04\xd2\x16\x30"
	postgresCommon = "\x00\x00\x00\x08\x04\xd2\x16"
)

// Look returns the kind of a connection that begins with b: KindTLS, KindSSL, KindGSS, or KindOther
// for plaintext. It returns KindUndecided while b is a prefix of one of the first three.
func Look(b []byte) Kind {
	switch {
	case len(b) == 0:
		return KindUndecided
	case b[0] == 0x16:
		return lookTLS(b)
	case len(b) < FirstBytes && strings.HasPrefix(postgresCommon, string(b)):
		return KindUndecided
	case bytes.HasPrefix(b, []byte(sslRequest)):
		return KindSSL
	case bytes.HasPrefix(b, []byte(gssEncRequest)):
		return KindGSS
	}
	return KindOther
}

// lookTLS recognizes a ClientHello in a handshake record: 16 03 0x .. .. 01. Other protocols may also
// begin with 16. A message of MongoDB begins with its length, lowest byte first: 16 03 00 00 for 790
// bytes. Therefore 03 00, which is SSL 3.0, is not TLS here.
func lookTLS(b []byte) Kind {
	if len(b) > 1 && b[1] != 3 || len(b) > 2 && (b[2] == 0 || b[2] > 4) || len(b) > 5 && b[5] != 1 {
		return KindOther
	}
	if len(b) < 6 {
		return KindUndecided
	}
	return KindTLS
}

const h2Preface = "PRI * HT"

// The methods of RFC 9110, PATCH and that of ProbeRequest, up to FirstBytes.
var methods = []string{"GET ", "HEAD ", "POST ", "PUT ", "DELETE ", "CONNECT ", "OPTIONS ", "TRACE ", "PATCH ", probeMethod}

// Describe returns the protocol of plaintext that begins with b. It is a guess from the first bytes:
// a prefix of an HTTP request counts as HTTP.
func Describe(b []byte) Kind {
	s := string(b[:min(len(b), FirstBytes)])
	switch {
	case s == "":
		return KindSilent
	case begins(s, h2Preface) && len(s) > 1: // a single P may be POST
		if begins(s, "PR") {
			return KindH2
		}
	case len(s) == FirstBytes && (s[4:] == "\x00\x03\x00\x00" || s[4:] == "\x00\x03\x00\x02" || s[4:] == "\x04\xd2\x16\x2e") && s[:2] == "\x00\x00":
		return KindPostgres
	}
	for _, method := range methods {
		if begins(s, method) {
			return KindHTTP
		}
	}
	return KindOther
}

// begins reports whether one string is a prefix of the other.
func begins(s, t string) bool { return strings.HasPrefix(s, t) || strings.HasPrefix(t, s) }
