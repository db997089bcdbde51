package proxy

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// maxAddresses is the maximum number of addresses of a Service that are dialled.
const maxAddresses = 16

// ErrItself is the error of an answer of DNS whose addresses are all refused.
var ErrItself = errors.New("the proxy would connect to itself")

// Reachable returns the addresses of an answer of DNS to which the proxy connects, in the same order. It refuses those
// that lead back into the pod or cannot be a Service's: loopback, unspecified, multicast, link-local and own.
func Reachable(answer, own []netip.Addr) ([]netip.Addr, error) {
	var out []netip.Addr
	for _, a := range answer {
		a = a.Unmap()
		refused := !a.IsValid() || a.IsLoopback() || a.IsUnspecified() || a.IsMulticast() || a.IsLinkLocalUnicast() || slices.Contains(own, a)
		if !refused && !slices.Contains(out, a) && len(out) < maxAddresses {
			out = append(out, a)
		}
	}
	switch {
	case len(answer) == 0:
		return nil, errors.New("DNS has no address")
	case len(out) == 0:
		return nil, fmt.Errorf("DNS answered %s: %w", answer[0], ErrItself)
	}
	return out, nil
}

// CheckNameService returns an error unless the content of /etc/nsswitch.conf is a line that has names of hosts looked up
// only by DNS. With other lines, or without the file, Go's resolver may read /etc/hosts first.
func CheckNameService(content string) error {
	var got [][]string
	for line := range strings.Lines(content) {
		line, _, _ = strings.Cut(line, "#")
		if fields := strings.Fields(line); len(fields) > 0 {
			got = append(got, fields)
		}
	}
	if len(got) == 1 && slices.Equal(got[0], []string{"hosts:", "dns"}) {
		return nil
	}
	return errors.New("must only contain hosts: dns, as in the image of the proxy: the pod's /etc/hosts would lead from a Service to the proxy itself")
}

// Advice returns what to do about a failed handshake with a server, or "".
func Advice(err error) string {
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	var header tls.RecordHeaderError
	var peer *net.OpError
	switch {
	case errors.As(err, &unknown):
		return "check that the Service requests its certificate with annotation servingcert.dev/secret-name, and that its pods were restarted since"
	case errors.As(err, &name):
		return "check that the pods behind the Service have the certificate of this Service"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "check that the server reloads its renewed certificate, and the node's clock"
	case errors.As(err, &header):
		return "the port does not speak TLS: check that the Service's targetPort begins with sc-tls- or sc-any-, or is that of a TLS server"
	case errors.As(err, &peer) && peer.Op == "remote error": // an alert
		return "the server refused the handshake: check that annotation servingcert.dev/clients of its Service lists the ServiceAccount of this pod, and its log"
	}
	return ""
}
