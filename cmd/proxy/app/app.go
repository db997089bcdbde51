// Package app implements the program proxy: its flags, their validation, and Run. The command only
// calls Main, so that tests can run the program in their own executable.
package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/servingcert/servingcert/cmd/internal/command"
	"github.com/servingcert/servingcert/cmd/internal/port"
	"github.com/servingcert/servingcert/pkg/proxy"
	"github.com/servingcert/servingcert/pkg/proxy/server"
)

const about = `proxy accepts TLS connections with the certificate in --cert-dir and forwards them to a program
in the same pod that speaks plaintext. The webhook of servingcert adds it to pods behind a Service
whose port has a targetPort named sc-tls-PORT, or sc-any-PORT, which accepts plaintext too.

It listens once the certificate exists, and reloads renewed certificates. It dials the program at
127.0.0.1, then at ::1, then at the pod's addresses in the environment variable POD_IPS or POD_IP.`

// Config holds the values of flags and environment variables.
type Config struct {
	Listen       []string
	CertDir      string
	AdminAddress string
	Limits       proxy.Limits

	ports    []proxy.Listen
	upstream []netip.Addr
}

// Main runs the program with the arguments and streams of the process, and exits.
func Main() { os.Exit(run(os.Args[1:], os.Getenv, os.Stdout, os.Stderr)) }

func (c *Config) register(fs *pflag.FlagSet) {
	c.CertDir, c.AdminAddress, c.Limits = "/etc/servingcert", "127.0.0.1:15443", proxy.DefaultLimits()
	fs.StringArrayVar(&c.Listen, "listen", nil, "NAME=PORT:UPSTREAM[,h2][,proxy-v2]: forward from PORT, on all addresses, to port UPSTREAM of the program; NAME begins with sc-tls- (TLS only) or sc-any- (TLS and plaintext). h2: the program speaks HTTP/2 or gRPC. proxy-v2: send the program a PROXY protocol header, version 2. Can be repeated")
	fs.StringVar(&c.CertDir, "cert-dir", c.CertDir, "directory that contains tls.crt and tls.key; they are reloaded when they change")
	fs.StringVar(&c.AdminAddress, "admin-address", c.AdminAddress, "loopback address on which /metrics, /readyz and /clients are served over HTTP")
	fs.IntVar(&c.Limits.MaxConnections, "max-connections", 0, "maximum number of connections on all ports together; at the maximum, a new connection replaces the oldest one that has no completed TLS handshake or, in plaintext, no data. 0: as many as memory and file descriptors allow, at most 65536")
	fs.DurationVar(&c.Limits.Handshake, "handshake-timeout", c.Limits.Handshake, "maximum duration of a TLS handshake")
	fs.DurationVar(&c.Limits.FirstByte, "first-byte-timeout", c.Limits.FirstByte, "time for which a port for TLS and plaintext waits for a client's first bytes before it connects to the program, which may send first")
	fs.DurationVar(&c.Limits.Idle, "idle-timeout", c.Limits.Idle, "time after which an idle connection is closed; 0: never")
	fs.DurationVar(&c.Limits.Drain, "drain-time", c.Limits.Drain, "time for which connections may stay open after SIGTERM")
}

func (c *Config) validate(getenv func(string) string) error {
	admin, err := netip.ParseAddrPort(c.AdminAddress)
	if err != nil || !admin.Addr().IsLoopback() || admin.Port() == 0 {
		return fmt.Errorf("--admin-address: %q: must be a loopback IP address and a port, such as 127.0.0.1:15443", c.AdminAddress)
	}
	for _, each := range c.Listen {
		l, err := proxy.ParseListen(each)
		if err != nil {
			return fmt.Errorf("--listen: %w", err)
		}
		c.ports = append(c.ports, l)
	}
	if err := proxy.Check(c.ports, admin.Port()); err != nil {
		return err
	}
	if c.CertDir == "" {
		return errors.New(`--cert-dir: "": must be a directory`)
	}
	c.upstream = []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.IPv6Loopback()}
	for _, name := range []string{"POD_IPS", "POD_IP"} {
		for s := range strings.SplitSeq(getenv(name), ",") {
			if s == "" {
				continue
			}
			address, err := netip.ParseAddr(s)
			if err != nil {
				return fmt.Errorf("$%s: %q: must be IP addresses, separated by commas", name, getenv(name))
			}
			c.upstream = append(c.upstream, address)
		}
		if len(c.upstream) > 2 {
			break
		}
	}
	return c.Limits.Validate()
}

func run(args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	c := &Config{}
	return command.Main(args, stdout, stderr, command.Command{
		Name: "proxy", About: about, Flags: c.register,
		Validate: func() error { return c.validate(getenv) },
		Run:      func(ctx context.Context) error { return c.serve(ctx, slog.New(slog.NewTextHandler(stderr, nil))) },
	})
}

func (c *Config) serve(ctx context.Context, log *slog.Logger) error {
	c.Limits.MaxConnections = proxy.Connections(c.Limits.MaxConnections, descriptors(), useMemory())
	s := server.New(server.Config{
		Ports: c.ports, CertDir: c.CertDir, Upstream: c.upstream, Limits: c.Limits, Clock: time.Now, Log: log,
	})
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if err := port.Small(s.Handler(), log).Serve(ctx, c.AdminAddress); err != nil {
		return fmt.Errorf("--admin-address: %w", err)
	}
	return s.Run(ctx)
}
