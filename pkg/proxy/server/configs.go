package server

import (
	"crypto/tls"
	"errors"
	"slices"
	"time"

	"github.com/servingcert/servingcert/pkg/proxy"
)

// baseConfig returns what all configurations with a certificate have in common.
func baseConfig(pair tls.Certificate) *tls.Config {
	return &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{pair},
		// One record for each write. Small first records would help browsers on slow networks, at
		// the cost of a system call for each 1400 bytes.
		DynamicRecordSizingDisabled: true,
	}
}

// configure makes a configuration select protocols by proxy.ChooseProtocol, and call the verify of a transport that
// has one.
func configure(base *tls.Config, h2 bool) *tls.Config {
	usual := map[string]*tls.Config{"": base.Clone()}
	for _, protocol := range []string{proxy.ProtocolH2, proxy.ProtocolHTTP1} {
		usual[protocol] = base.Clone()
		usual[protocol].NextProtos = []string{protocol}
	}
	base.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		protocol := proxy.ChooseProtocol(hello.SupportedProtos, h2)
		config := usual[protocol]
		if config == nil {
			config = usual[""].Clone()
			config.NextProtos = []string{protocol}
		}
		if t, ok := hello.Conn.(*transport); ok {
			t.probes = slices.Contains(hello.SupportedProtos, proxy.ProbeProtocol)
			if t.verify != nil {
				config = config.Clone()
				config.VerifyConnection = t.verify
			}
		}
		return config, nil // with the ticket keys of base
	}
	return base
}

// variant is a kind of guarded port.
type variant struct{ h2, watch bool }

var errNotJudged = errors.New("nobody has judged the client")

// guarded returns the configuration for a guarded port. If the roots change, it is another one: a session of a client
// that the new roots do not verify must not be resumed, so that the client presents the certificate that it has now.
func (l *loaded) guarded(roots *proxy.ClientRoots, v variant, clock func() time.Time) *tls.Config {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.roots != roots {
		l.roots, l.guardedConfig = roots, map[variant]*tls.Config{}
	}
	config := l.guardedConfig[v]
	if config == nil {
		base := baseConfig(l.pair)
		base.Time = clock
		// An alert tells the client that a certificate is required.
		base.ClientAuth = tls.RequireAnyClientCert
		if v.watch {
			base.ClientAuth = tls.RequestClientCert
		}
		base.VerifyConnection = func(tls.ConnectionState) error { return errNotJudged }
		config = configure(base, v.h2)
		l.guardedConfig[v] = config
	}
	return config
}
