// Package proxy has the decisions of the TLS proxy that runs in pods beside a program that speaks
// plaintext: the ports to listen on, the Services to connect to, the protocol by a connection's first
// bytes, the negotiated protocol, the list of plaintext clients, and the limits. Package
// pkg/proxy/server is the proxy.
package proxy

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// A Listen is one port of the proxy.
type Listen struct {
	// Name is the name of the Service's target port: sc-tls-UPSTREAM or sc-any-UPSTREAM, as
	// api.ParseProxyPort reads it.
	Name string
	// Port is the port to listen on, on all addresses.
	Port uint16
	// Upstream is the port of the program.
	Upstream uint16
	// Plaintext is true if connections without TLS are forwarded too.
	Plaintext bool
	// H2 is true if the program speaks HTTP/2, which is then preferred to HTTP/1.1.
	H2 bool
	// ProxyV2 is true if the program expects a header of the PROXY protocol, version 2.
	ProxyV2 bool
}

// Prefixes of port names, as in package api, whose dependencies would double the memory of the proxy.
const (
	prefixTLS = "sc-tls-"
	prefixAny = "sc-any-"
)

// ParseListen reads NAME=PORT:UPSTREAM[,h2][,proxy-v2]. The error quotes s.
func ParseListen(s string) (Listen, error) {
	l, err := parseListen(s)
	if err != nil {
		return Listen{}, fmt.Errorf("%q: %w: must be NAME=PORT:UPSTREAM[,h2][,proxy-v2]", s, err)
	}
	return l, nil
}

func parseListen(s string) (l Listen, err error) {
	words := strings.Split(s, ",")
	name, ports, found := strings.Cut(words[0], "=")
	if !found {
		return l, errors.New("has no =")
	}
	var isName bool
	if l.Plaintext, isName = parsePortName(name); !isName {
		return Listen{}, fmt.Errorf("%q is not a valid name: must be %sPORT or %sPORT, with at most %d characters", name, prefixTLS, prefixAny, maxName)
	}
	l.Name = name
	port, upstream, found := strings.Cut(ports, ":")
	if !found {
		return l, errors.New("has no : between the ports")
	}
	if l.Port, err = parsePort(port); err != nil {
		return l, err
	}
	if l.Upstream, err = parsePort(upstream); err != nil {
		return l, err
	}
	for _, word := range words[1:] {
		switch word {
		case "h2":
			l.H2 = true
		case "proxy-v2":
			l.ProxyV2 = true
		default:
			return l, fmt.Errorf("%q is not a valid option: must be h2 or proxy-v2", word)
		}
	}
	return l, nil
}

// parsePortName reports whether a name is that of a port of the proxy, and whether the port allows plaintext.
func parsePortName(name string) (plaintext, ok bool) {
	rest, strict := strings.CutPrefix(name, prefixTLS)
	if !strict {
		rest, plaintext = strings.CutPrefix(name, prefixAny)
	}
	return plaintext, (strict || plaintext) && validName(name) && validRest(rest)
}

func parsePort(s string) (uint16, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n == 0 || strconv.FormatUint(n, 10) != s {
		return 0, fmt.Errorf("%q is not a valid port: must be between 1 and 65535", s)
	}
	return uint16(n), nil
}

// maxName is the maximum length of a port name in Kubernetes.
const maxName = 15

// validName reports whether s is a valid port name (IsValidPortName of apimachinery).
func validName(s string) bool {
	letter := false
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z':
			letter = true
		case '0' <= c && c <= '9':
		case c == '-' && i > 0 && i < len(s)-1 && s[i-1] != '-':
		default:
			return false
		}
	}
	return letter && len(s) <= maxName
}

// validRest reports whether s, the part of a name after the prefix, is a port number or a port name.
func validRest(s string) bool {
	if _, err := strconv.Atoi(s); err == nil {
		_, err = parsePort(s)
		return err == nil
	}
	return validName(s)
}

// Check returns an error if two listeners have the same port or address, or if a port of a program is one of the
// proxy's, so that the proxy would connect to itself.
func Check(ports []Listen, connects []Connect, adminAddress netip.AddrPort) error {
	if len(ports) == 0 && len(connects) == 0 {
		return errors.New("--listen: must be set at least once, or --connect")
	}
	taken := map[uint16]string{adminAddress.Port(): "--admin-address"}
	for _, l := range ports {
		if other, ok := taken[l.Port]; ok {
			return fmt.Errorf("--listen %s: port %d is also used by %s", l.Name, l.Port, other)
		}
		taken[l.Port] = "--listen " + l.Name
	}
	for _, l := range ports {
		if other, ok := taken[l.Upstream]; ok {
			return fmt.Errorf("--listen %s: the program's port %d is the port of %s: the proxy would connect to itself", l.Name, l.Upstream, other)
		}
	}
	return checkConnects(connects, ports, adminAddress)
}
