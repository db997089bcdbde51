package main

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
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

func (b *bench) ways(ghostunnel string) []way {
	return []way{
		{"proxy", "18443", []string{b.dir + "/proxy", "--listen=sc-tls-18080=18443:" + originPort, "--cert-dir=" + b.dir, "--admin-address=127.0.0.1:18449", "--drain-time=0s"}},
		{"nginx", "18444", []string{"nginx", "-p", b.dir, "-e", "stderr", "-c", b.dir + "/nginx.conf"}},
		{"haproxy", "18445", []string{"haproxy", "-db", "-f", b.dir + "/haproxy.cfg"}},
		{"ghostunnel", "18446", []string{ghostunnel, "server", "--listen=127.0.0.1:18446", "--target=127.0.0.1:" + originPort, "--cert=" + b.dir + "/tls.crt", "--key=" + b.dir + "/tls.key", "--disable-authentication", "--quiet=all"}},
	}
}

const nginxConf = `daemon off; user root; worker_processes auto; worker_rlimit_nofile 20000; pid DIR/nginx.pid; error_log stderr error;
load_module /usr/lib/nginx/modules/ngx_stream_module.so;
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

// writeFiles writes configurations, and a certificate that signs itself.
func (b *bench) writeFiles() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"web.shop.svc"}, NotAfter: time.Now().Add(24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	cert := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	private := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}))
	for name, content := range map[string]string{
		"tls.crt": cert, "tls.key": private, "pair.pem": cert + private, "nginx.conf": nginxConf, "haproxy.cfg": haproxyConf,
	} {
		if err := os.WriteFile(b.dir+"/"+name, []byte(strings.ReplaceAll(content, "DIR", b.dir)), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// origin is the program behind the proxies: an HTTP/1.1 server that reads requests without a body,
// and answers with 100 bytes, or to GET /N with N MiB.
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
