package proxy

import "strings"

// How the rotator, and kubectl servingcert, see whether a port admits strangers. Neither can hide a call: what begins like
// this never reaches the program where the port refuses it, and a client that offers ProbeProtocol never reaches it at all.
const (
	// ProbeProtocol is the ALPN protocol of a client that only looks. The proxy judges its certificate as that of all others,
	// and then ends the connection. It counts a probe, and no caller.
	ProbeProtocol = "servingcert-probe"
	// ProbeRequest is what a client sends that looks whether plaintext is refused. Its method, which no program has, begins
	// with FirstBytes that are its own. Where plaintext is refused, the proxy counts a probe, and no caller. Where it is not,
	// this is a call like others.
	ProbeRequest = probeMethod + "* HTTP/1.1\r\nHost: servingcert\r\nConnection: close\r\n\r\n"
	// NotTLS is the response to plaintext HTTP where plaintext is refused. It ends with the connection.
	NotTLS = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n" +
		"400 Bad Request: this port accepts TLS only, and the request is not encrypted. Use https.\n"

	probeMethod = "PROBE "
)

// IsProbe reports whether a connection that begins with b begins with ProbeRequest.
func IsProbe(b []byte) bool {
	return len(b) >= FirstBytes && strings.HasPrefix(ProbeRequest, string(b[:FirstBytes]))
}
