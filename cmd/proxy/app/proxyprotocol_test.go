package app

import (
	"bufio"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/test/skip"
)

// A program that reads the PROXY protocol, version 2, gets the address of each client before the
// client's first byte, with TLS and plaintext.
func TestProxyProtocol(t *testing.T) {
	for name, program := range map[string]func(t *testing.T) (port int){"a program in Go": decoder, "nginx": nginx} {
		t.Run(name, func(t *testing.T) {
			dir, upstream := t.TempDir(), program(t)
			writePair(t, dir)
			strict, both := int(process.PortFor(t, "")), int(process.PortFor(t, ""))
			cmd := exec.CommandContext(t.Context(), programs.Path(t, "proxy"), "--cert-dir="+dir, fmt.Sprintf("--admin-address=127.0.0.1:%d", int(process.PortFor(t, ""))),
				fmt.Sprintf("--listen=sc-tls-web=%d:%d,proxy-v2", strict, upstream), fmt.Sprintf("--listen=sc-any-web=%d:%d,proxy-v2", both, upstream))
			cmd.Stderr = os.Stderr
			require.NoError(t, cmd.Start())
			t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
			for _, c := range []struct {
				scheme, from string
				port         int
			}{{"https", "127.0.0.1", strict}, {"https", "127.0.0.3", both}, {"http", "127.0.0.4", both}, {"https", "::1", strict}} {
				from := netip.MustParseAddr(c.from)
				to := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(c.port))
				if from.Is6() {
					to = netip.AddrPortFrom(from, uint16(c.port))
				}
				require.EventuallyWithT(t, func(collect *assert.CollectT) {
					client, answer, err := ask(c.scheme, from, to)
					require.NoError(collect, err)
					assert.Equal(collect, client.String()+" to "+to.String()+"\n", answer)
				}, process.Soon, 20*time.Millisecond, "%v", c)
			}
		})
	}
}

// ask sends a request from an address of this machine. It returns the client's end of the
// connection and the answer.
func ask(scheme string, from netip.Addr, to netip.AddrPort) (client netip.AddrPort, answer string, err error) {
	dialer := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0)), Timeout: 5 * time.Second}
	transport := &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // a self-signed certificate
	}
	transport.Dial = func(network, address string) (net.Conn, error) { //nolint:staticcheck // one connection
		c, err := dialer.Dial(network, address)
		if err == nil {
			client = c.LocalAddr().(*net.TCPAddr).AddrPort()
		}
		return c, err
	}
	response, err := (&http.Client{Transport: transport, Timeout: 10 * time.Second}).Get(scheme + "://" + to.String() + "/")
	if err != nil {
		return client, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return client, string(body), err
}

// decoder is an HTTP server that answers with the addresses in the header of the connection.
func decoder(t *testing.T) (port int) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := &http.Server{ReadHeaderTimeout: 5 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "%s to %s\n", r.RemoteAddr, r.Context().Value(http.LocalAddrContextKey))
	})}
	t.Cleanup(func() { _ = server.Close() })
	go func() { _ = server.Serve(headers{listener}) }()
	return listener.Addr().(*net.TCPAddr).Port
}

// headers accepts connections that begin with a header.
type headers struct{ net.Listener }

func (l headers) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
		r := bufio.NewReader(c)
		from, to, err := decode(r)
		if err != nil {
			_ = c.Close()
			continue
		}
		_ = c.SetReadDeadline(time.Time{})
		return announced{c, r, from, to}, nil
	}
}

type announced struct {
	net.Conn
	r        io.Reader
	from, to netip.AddrPort
}

func (c announced) Read(b []byte) (int, error) { return c.r.Read(b) }
func (c announced) RemoteAddr() net.Addr       { return net.TCPAddrFromAddrPort(c.from) }
func (c announced) LocalAddr() net.Addr        { return net.TCPAddrFromAddrPort(c.to) }

// decode reads the header of a TCP connection (section 2.2 of the specification).
func decode(r io.Reader) (from, to netip.AddrPort, err error) {
	fixed := make([]byte, 16)
	if _, err := io.ReadFull(r, fixed); err != nil {
		return from, to, err
	}
	size := map[byte]int{0x11: 4, 0x21: 16}[fixed[13]]
	if string(fixed[:13]) != "\r\n\r\n\x00\r\nQUIT\n\x21" || size == 0 || int(binary.BigEndian.Uint16(fixed[14:])) != 2*size+4 {
		return from, to, errors.New("not a header of a TCP client")
	}
	rest := make([]byte, 2*size+4)
	if _, err := io.ReadFull(r, rest); err != nil {
		return from, to, err
	}
	source, _ := netip.AddrFromSlice(rest[:size])
	destination, _ := netip.AddrFromSlice(rest[size : 2*size])
	ports := rest[2*size:]
	return netip.AddrPortFrom(source, binary.BigEndian.Uint16(ports)), netip.AddrPortFrom(destination, binary.BigEndian.Uint16(ports[2:])), nil
}

// nginx runs nginx, which answers the same.
func nginx(t *testing.T) (port int) {
	skip.WithoutPrograms(t, "nginx")
	dir := t.TempDir()
	port = int(process.PortFor(t, ""))
	config := fmt.Sprintf(`daemon off; error_log stderr; pid %[1]s/pid; events {}
http {
  access_log off; default_type text/plain;
  client_body_temp_path %[1]s; proxy_temp_path %[1]s; fastcgi_temp_path %[1]s; uwsgi_temp_path %[1]s; scgi_temp_path %[1]s;
  map $proxy_protocol_addr $client { ~: [$proxy_protocol_addr]; default $proxy_protocol_addr; }
  map $proxy_protocol_server_addr $server { ~: [$proxy_protocol_server_addr]; default $proxy_protocol_server_addr; }
  server { listen 127.0.0.1:%[2]d proxy_protocol; return 200 "$client:$proxy_protocol_port to $server:$proxy_protocol_server_port\n"; }
}
`, dir, port)
	file := filepath.Join(dir, "nginx.conf")
	require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
	cmd := exec.Command("nginx", "-p", dir, "-e", "stderr", "-c", file)
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _, _ = cmd.Process.Signal(syscall.SIGTERM), cmd.Wait() }) // with its workers
	require.Eventually(t, func() bool {
		c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	}, process.Soon, 20*time.Millisecond)
	return port
}
