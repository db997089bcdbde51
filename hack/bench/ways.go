package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"time"
)

const originPort = "18080"

// way is one proxy: it listens on a port and forwards to the origin.
type way struct {
	name, port string
	command    []string
}

func (p *proxies) ways() []way {
	return []way{
		{"proxy", "18443", []string{p.dir + "/proxy", "--listen=sc-tls-18080=18443:" + originPort, "--cert-dir=" + p.dir, "--admin-address=127.0.0.1:18449", "--drain-time=0s"}},
		{"nginx", "18444", []string{"nginx", "-p", p.dir, "-e", "stderr", "-c", p.dir + "/nginx.conf"}},
		{"haproxy", "18445", []string{"haproxy", "-db", "-f", p.dir + "/haproxy.cfg"}},
		{"ghostunnel", "18446", []string{"ghostunnel", "server", "--listen=127.0.0.1:18446", "--target=127.0.0.1:" + originPort, "--cert=" + p.dir + "/tls.crt", "--key=" + p.dir + "/tls.key", "--disable-authentication", "--quiet=all"}},
	}
}

const nginxModule = "/usr/lib/nginx/modules/ngx_stream_module.so"

const nginxConf = `daemon off; user root; worker_processes auto; worker_rlimit_nofile 20000; pid DIR/nginx.pid; error_log stderr error;
load_module ` + nginxModule + `;
events { worker_connections 9990; }
stream { server { listen 18444 ssl backlog=4096; proxy_pass 127.0.0.1:18080; proxy_timeout 1h; tcp_nodelay on;
 ssl_certificate DIR/tls.crt; ssl_certificate_key DIR/tls.key; ssl_protocols TLSv1.2 TLSv1.3; ssl_session_cache shared:s:10m; } }
`

const haproxyConf = `global
 maxconn 9950
defaults
 mode tcp
 timeout connect 5s
 timeout client 1h
 timeout server 1h
listen f
 bind 127.0.0.1:18445 ssl crt DIR/pair.pem backlog 4096
 server s 127.0.0.1:18080
`

// writeFiles writes configurations and a certificate.
func (p *proxies) writeFiles() error {
	signer, err := newBareSigner()
	if err != nil {
		return err
	}
	issued, err := signer.issue(context.Background(), "web.shop.svc", time.Now())
	if err != nil {
		return err
	}
	cert, key := string(issued.CertPEM), string(issued.KeyPEM)
	for name, content := range map[string]string{
		"tls.crt": cert, "tls.key": key, "pair.pem": cert + key, "nginx.conf": nginxConf, "haproxy.cfg": haproxyConf,
	} {
		if err := os.WriteFile(p.dir+"/"+name, []byte(strings.ReplaceAll(content, "DIR", p.dir)), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// origin is the server behind the proxies: an HTTP/1.1 server that reads requests without a body,
// and answers with 100 bytes, or with N MiB to GET /N.
func origin(address string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	for {
		c, err := listener.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer c.Close()
			for r := bufio.NewReaderSize(c, 1024); ; {
				if err := answer(c, r); err != nil {
					return
				}
			}
		}()
	}
}

var (
	small = []byte("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + strings.Repeat("x", 100))
	chunk = make([]byte, 1<<20)
)

func answer(c net.Conn, r *bufio.Reader) error {
	line, err := r.ReadString('\n')
	for header := line; err == nil && header != "\r\n"; {
		header, err = r.ReadString('\n')
	}
	if err != nil {
		return err
	}
	var n int
	if _, err = fmt.Sscanf(line, "GET /%d ", &n); err != nil || n == 0 {
		_, err = c.Write(small)
		return err
	}
	_, err = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", n<<20)
	for ; err == nil && n > 0; n-- {
		_, err = c.Write(chunk)
	}
	return err
}
