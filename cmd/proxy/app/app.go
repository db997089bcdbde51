// Package app implements the program proxy: its flags, their validation, and Run. The command only
// calls Main, so that tests can run the program in their own executable.
package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
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
127.0.0.1, then at ::1, then at the pod's addresses in the environment variable POD_IPS or POD_IP.

With --connect, it also accepts plaintext connections of the pod's programs on loopback addresses,
to which the pod's /etc/hosts sends the names of Services, and connects to these with TLS. It
verifies the servers with the roots in --ca-file, and never connects without TLS. With --identity,
it presents a client certificate to servers that request one.

With --clients, a port admits only clients whose certificate is of a root in --client-ca, and whose
ServiceAccount is listed for the port.`

// Config holds the values of flags and environment variables.
type Config struct {
	Listen        []string
	Connect       []string
	CertDir       string
	CAFile        string
	Identity      string
	ClientCA      string
	Clients       string
	ClusterDomain string
	AdminAddress  string
	Check         bool
	Limits        proxy.Limits

	ports    []proxy.Listen
	connects []proxy.Connect
	upstream []netip.Addr
}

// Main runs the program with the arguments and streams of the process, and exits.
func Main() { os.Exit(run(os.Args[1:], os.Getenv, os.Stdout, os.Stderr)) }

func (c *Config) register(fs *pflag.FlagSet) {
	c.CertDir, c.CAFile, c.ClusterDomain = "/etc/servingcert", "/etc/servingcert/ca.crt", "cluster.local"
	c.AdminAddress, c.Limits = "127.0.0.1:15443", proxy.DefaultLimits()
	fs.StringArrayVar(&c.Listen, "listen", nil, "NAME=PORT:UPSTREAM[,h2][,proxy-v2]: forward from PORT, on all addresses, to port UPSTREAM of the program; NAME begins with sc-tls- (TLS only) or sc-any- (TLS and plaintext). h2: the program speaks HTTP/2 or gRPC. proxy-v2: send the program a PROXY protocol header, version 2. Can be repeated")
	fs.StringArrayVar(&c.Connect, "connect", nil, "ADDRESS:PORT=SERVICE.NAMESPACE.svc:PORT[,http|,either]: accept connections of the pod's programs at 127.X.Y.Z other than 127.0.0.1, or [::1], and connect to the port of the Service with TLS. Without an option it connects at once, because the server may send first. http: it waits for the client's first bytes, and negotiates HTTP/2 if the client speaks it; a client that speaks TLS itself is passed through unchanged. either: the same, for at most --first-byte-timeout. Can be repeated")
	fs.StringVar(&c.CertDir, "cert-dir", c.CertDir, "directory that contains tls.crt and tls.key, for --listen; they are reloaded when they change")
	fs.StringVar(&c.CAFile, "ca-file", c.CAFile, "file with the CA certificates that verify the servers of --connect, in PEM; it is reloaded when it changes")
	fs.StringVar(&c.Identity, "identity", "", "file with a private key and its certificate chain, in PEM, that --connect presents to servers which request a client certificate; it is reloaded when it changes")
	fs.StringVar(&c.ClientCA, "client-ca", "", "file with the CA certificates that verify clients, in PEM, for --clients; it is reloaded when it changes")
	fs.StringVar(&c.Clients, "clients", "", "file that lists which clients the ports of --listen admit, as NAME=ENTRY,ENTRY;NAME=ENTRY, where ENTRY is NAMESPACE/SERVICEACCOUNT with * for each of them, any (each client with a certificate of --client-ca) or watch (each client, but count who would be refused). Ports that are not listed admit everybody. It is reloaded when it changes, and ends the connections of clients that are no longer listed. Until it has been valid once, all clients are refused")
	fs.StringVar(&c.ClusterDomain, "cluster-domain", c.ClusterDomain, "domain of Services in DNS, for --connect")
	fs.StringVar(&c.AdminAddress, "admin-address", c.AdminAddress, "loopback address on which /metrics, /readyz and /clients are served over HTTP")
	fs.BoolVar(&c.Check, "check", false, "ask /readyz of the proxy that runs at --admin-address, and exit with 0 if it is ready and 1 if not")
	fs.IntVar(&c.Limits.MaxConnections, "max-connections", 0, "maximum number of connections on all ports together; at the maximum, a new connection replaces the oldest one that has no completed TLS handshake or, in plaintext, no data. With --listen and --connect, a quarter is kept for each. 0: as many as memory and file descriptors allow, at most 65536")
	fs.DurationVar(&c.Limits.Handshake, "handshake-timeout", c.Limits.Handshake, "maximum duration of a TLS handshake")
	fs.DurationVar(&c.Limits.FirstByte, "first-byte-timeout", c.Limits.FirstByte, "time for which a port for TLS and plaintext, or one of --connect with either, waits for a client's first bytes before it connects to the program or the server, which may send first")
	fs.DurationVar(&c.Limits.Idle, "idle-timeout", c.Limits.Idle, "time after which an idle connection is closed; 0: never")
	fs.DurationVar(&c.Limits.Drain, "drain-time", c.Limits.Drain, "time for which connections may stay open after SIGTERM")
}

func (c *Config) validate(getenv func(string) string) error {
	admin, err := netip.ParseAddrPort(c.AdminAddress)
	if err != nil || !admin.Addr().IsLoopback() || admin.Port() == 0 {
		return fmt.Errorf("--admin-address: %q: must be a loopback IP address and a port, such as 127.0.0.1:15443", c.AdminAddress)
	}
	if c.Check {
		return nil
	}
	for _, each := range c.Listen {
		l, err := proxy.ParseListen(each)
		if err != nil {
			return fmt.Errorf("--listen: %w", err)
		}
		c.ports = append(c.ports, l)
	}
	for _, each := range c.Connect {
		parsed, err := proxy.ParseConnect(each)
		if err != nil {
			return fmt.Errorf("--connect: %w", err)
		}
		c.connects = append(c.connects, parsed)
	}
	if err := proxy.Check(c.ports, c.connects, admin); err != nil {
		return err
	}
	if err := c.checkFiles(); err != nil {
		return err
	}
	if err := proxy.CheckClusterDomain(c.ClusterDomain); err != nil {
		return err
	}
	if err := c.readAddresses(getenv); err != nil {
		return err
	}
	return c.Limits.Validate()
}

// checkFiles returns an error if a file is needed and not named, or named and of no use.
func (c *Config) checkFiles() error {
	switch {
	case len(c.ports) > 0 && c.CertDir == "":
		return errors.New(`--cert-dir: "": must be a directory`)
	case len(c.connects) > 0 && c.CAFile == "":
		return errors.New(`--ca-file: "": must be a file`)
	case c.Identity != "" && len(c.connects) == 0:
		return errors.New("--identity: must be set with --connect, which presents it")
	case c.Clients != "" && c.ClientCA == "":
		return errors.New(`--client-ca: "": must be a file, which verifies the clients in --clients`)
	}
	return nil
}

// readAddresses reads the addresses at which the program is dialled.
func (c *Config) readAddresses(getenv func(string) string) error {
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
	return nil
}

func run(args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	c := &Config{}
	return command.Main(args, stdout, stderr, command.Command{
		Name: "proxy", About: about, Flags: c.register,
		Validate: func() error { return c.validate(getenv) },
		Run: func(ctx context.Context) error {
			if c.Check {
				return check(ctx, c.AdminAddress)
			}
			return c.serve(ctx, nameService, slog.New(slog.NewTextHandler(stderr, nil)))
		},
	})
}

// nameService configures how Go's resolver looks up names.
const nameService = "/etc/nsswitch.conf"

// serve runs the proxy.
func (c *Config) serve(ctx context.Context, nameService string, log *slog.Logger) error {
	if len(c.connects) > 0 {
		content, err := os.ReadFile(nameService)
		if err == nil {
			err = proxy.CheckNameService(string(content))
		}
		if err != nil {
			return fmt.Errorf("--connect: %s: %w", nameService, err)
		}
	}
	// Each outbound port has a descriptor.
	available := descriptors()
	available -= min(available, uint64(len(c.connects)))
	c.Limits.MaxConnections = proxy.Connections(c.Limits.MaxConnections, available, useMemory())
	s := server.New(server.Config{
		Ports: c.ports, CertDir: c.CertDir, Upstream: c.upstream, Connects: c.connects, CAFile: c.CAFile, ClusterDomain: c.ClusterDomain,
		IdentityFile: c.Identity, ClientCAFile: c.ClientCA, ClientsFile: c.Clients,
		Limits: c.Limits, Clock: time.Now, Log: log,
	})
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if err := port.Small(s.Handler(), log).Serve(ctx, c.AdminAddress); err != nil {
		return fmt.Errorf("--admin-address: %w", err)
	}
	return s.Run(ctx)
}

// checkTimeout is shorter than what kubelets usually wait for a probe, so that the error is seen.
const checkTimeout = 900 * time.Millisecond

// check returns an error unless the proxy with that admin address is ready.
func check(ctx context.Context, admin string) error {
	ctx, stop := context.WithTimeout(ctx, checkTimeout)
	defer stop()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+admin+"/readyz", http.NoBody)
	if err != nil {
		return err
	}
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
	if err != nil {
		return fmt.Errorf("no proxy answers at %s: %w", admin, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 500))
		return fmt.Errorf("the proxy is not ready: %s", strings.TrimSpace(string(text)))
	}
	return nil
}
