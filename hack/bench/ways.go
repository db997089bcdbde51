package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer/issue"
)

const originPort, inAPodPort = "18080", "18447"

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

// inAPod returns the command of the proxy of a pod that serves and connects, as the webhook sets it up where pods have
// identities. The Services have five ports each. The proxy demands that names are resolved by DNS alone, so it sees another
// nsswitch.conf.
func (p *proxies) inAPod(services int) []string {
	file := func(name string) string { return "=" + p.dir + "/" + name }
	command := []string{
		"unshare", "--map-root-user", "--mount", "sh", "-c", `mount --bind nsswitch.conf /etc/nsswitch.conf && exec "$@"`, "sh", p.dir + "/proxy",
		api.ProxyFlagListen + "=sc-tls-18080=" + inAPodPort + ":" + originPort, api.ProxyFlagCertDir + "=" + p.dir, api.ProxyFlagAdmin + "=127.0.0.1:18449",
		api.ProxyFlagClientCA + file("clients-ca.crt"), api.ProxyFlagClients + file("clients"), api.ProxyFlagCAFile + file("ca.crt"),
		api.ProxyFlagIdentity + file("identity.pem"), api.ProxyFlagClusterDomain + "=cluster.local",
	}
	for i := range services {
		for port := range 5 {
			command = append(command, fmt.Sprintf("%s=127.1.0.%d:%d=s%d.shop.svc:443", api.ProxyFlagConnect, i+1, 18000+port, i))
		}
	}
	return command
}

// issueIdentity returns the root of a CA for clients, and a key and its certificate as the kubelet writes them.
func issueIdentity() (root, bundle []byte, err error) {
	signer, err := newBareSigner(pki.ForClients("bench.example.com"))
	if err != nil {
		return nil, nil, err
	}
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		return nil, nil, err
	}
	der, err := pki.NewCSR(key)
	if err != nil {
		return nil, nil, err
	}
	wanted, now := api.Wanted{Params: api.Params{KeyAlgorithm: pki.ECDSAP256, Duration: 12 * time.Hour}}, time.Now()
	request := issue.NewRequest(signer.ca, wanted, now)
	request.CSR, request.Identity = issue.EncodeCSR(der), pki.SPIFFEID{TrustDomain: "bench.example.com", Namespace: "shop", ServiceAccount: "cart"}
	issued, err := issue.ForKey(context.Background(), signer.sign, signer.ca, key, request, wanted, now)
	return pki.EncodeCertificates(signer.ca.Anchors...), slices.Concat(issued.KeyPEM, issued.CertPEM), err
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
	signer, err := newBareSigner(forServers)
	if err != nil {
		return err
	}
	issued, err := signer.issue(context.Background(), "web.shop.svc", time.Now())
	if err != nil {
		return err
	}
	clients, identity, err := issueIdentity()
	if err != nil {
		return err
	}
	cert, key := string(issued.CertPEM), string(issued.KeyPEM)
	for name, content := range map[string]string{
		"tls.crt": cert, "tls.key": key, "pair.pem": cert + key, "nginx.conf": nginxConf, "haproxy.cfg": haproxyConf,
		"ca.crt": string(pki.EncodeCertificates(signer.ca.Anchors...)), "clients-ca.crt": string(clients), "identity.pem": string(identity),
		"clients": "sc-tls-18080=shop/cart,monitoring/*", "nsswitch.conf": "hosts: dns\n",
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
