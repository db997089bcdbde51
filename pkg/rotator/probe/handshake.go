package probe

import (
	"crypto/tls"
	"crypto/x509"
)

// Handshake has the parameters of a TLS handshake.
type Handshake struct {
	Version uint16
	// Group is that of the key exchange; 0 if there was none, as with RSA before TLS 1.3.
	Group tls.CurveID
	// Signature is the signature algorithm of the leaf. crypto/tls does not report that of the
	// handshake itself.
	Signature x509.SignatureAlgorithm
}

// HandshakeOf returns the parameters of a handshake in which the server has shown its certificate.
func HandshakeOf(state tls.ConnectionState) Handshake {
	h := Handshake{Version: state.Version, Group: state.CurveID}
	if len(state.PeerCertificates) > 0 {
		h.Signature = state.PeerCertificates[0].SignatureAlgorithm
	}
	return h
}

// HandshakeNames are the names of a Handshake's parameters, such as TLS 1.3, X25519MLKEM768 and
// ECDSA-SHA256.
type HandshakeNames struct {
	Version   string `json:"version"`
	Group     string `json:"group"`     // "none" if there was none
	Signature string `json:"signature"` // "unknown" to this program
}

// Names returns the names.
func (h Handshake) Names() HandshakeNames {
	n := HandshakeNames{Version: tls.VersionName(h.Version), Group: "none", Signature: "unknown"}
	if h.Group != 0 {
		n.Group = h.Group.String()
	}
	if h.Signature != x509.UnknownSignatureAlgorithm {
		n.Signature = h.Signature.String()
	}
	return n
}
