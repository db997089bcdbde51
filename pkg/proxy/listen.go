// Package proxy decides for the TLS proxy that is added to pods beside a program that speaks
// plaintext: which ports it listens on, what the first bytes of a connection are, which protocol
// is negotiated, who is a plaintext client, and how much is accepted at a time. Package
// pkg/proxy/server carries it out.
package proxy

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// A Listen is one port of the proxy.
type Listen struct {
	// Name is the name of the Service's target port: sc-tls-UPSTREAM or sc-any-UPSTREAM, as
	// api.ParseProxyPort reads it.
	Name string
	// Port is what is listened on, on all addresses.
	Port uint16
	// Upstream is the port of the program.
	Upstream uint16
	// Plaintext: connections that do not begin with a TLS handshake are forwarded too.
	Plaintext bool
	// H2: the program speaks HTTP/2, which is offered to clients that know HTTP/1.1 too.
	H2 bool
	// ProxyV2: the program is sent a header of the PROXY protocol, version 2.
	ProxyV2 bool
}

// Beginnings of the names of ports, as in package api, whose dependencies would double the memory
// of the proxy.
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
	rest, strict := strings.CutPrefix(name, prefixTLS)
	if !strict {
		rest, l.Plaintext = strings.CutPrefix(name, prefixAny)
	}
	if !strict && !l.Plaintext || !validName(name) || !validRest(rest) {
		return l, fmt.Errorf("%q is not a valid name: must be %sPORT or %sPORT, with at most %d characters", name, prefixTLS, prefixAny, maxName)
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
			return l, fmt.Errorf("%q is not known: only h2 and proxy-v2 are", word)
		}
	}
	return l, nil
}

func parsePort(s string) (uint16, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n == 0 || strconv.FormatUint(n, 10) != s {
		return 0, fmt.Errorf("%q is not a valid port: must be between 1 and 65535", s)
	}
	return uint16(n), nil
}

// maxName is how long the name of a port is in Kubernetes.
const maxName = 15

// validName reports whether s can be the name of a port (IsValidPortName of apimachinery).
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

// validRest reports whether s, what follows the beginning of a name, is a port or a port's name.
func validRest(s string) bool {
	if _, err := strconv.Atoi(s); err == nil {
		_, err = parsePort(s)
		return err == nil
	}
	return validName(s)
}

// Check returns what is wrong with the ports together: a port that is listened on twice, or one
// that is also a program's, to which the proxy would then connect itself. admin is the port on
// which the proxy is looked at.
func Check(ports []Listen, admin uint16) error {
	if len(ports) == 0 {
		return errors.New("--listen: must be given at least once")
	}
	taken := map[uint16]string{admin: "--admin-address"}
	for _, l := range ports {
		if other, ok := taken[l.Port]; ok {
			return fmt.Errorf("--listen %s: port %d is listened on by %s, too", l.Name, l.Port, other)
		}
		taken[l.Port] = "--listen " + l.Name
	}
	for _, l := range ports {
		if other, ok := taken[l.Upstream]; ok {
			return fmt.Errorf("--listen %s: the program's port %d is the port of %s: the proxy would connect to itself", l.Name, l.Upstream, other)
		}
	}
	return nil
}
