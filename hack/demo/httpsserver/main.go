// Command httpsserver is the demo's workload: a server that has flags for certificate and key, reads
// both files at each handshake, and does not know servingcert.
package main

import (
	"crypto/tls"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

func main() {
	listen := flag.String("listen", ":8080", "address to listen on")
	certFile := flag.String("tls-cert-file", "", "certificate and chain")
	keyFile := flag.String("tls-private-key-file", "", "private key")
	flag.Parse()
	log.Printf("process %d listening on %s, certificate %q", os.Getpid(), *listen, *certFile)
	hello := func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, "hello from process %d\n", os.Getpid())
	}
	server := &http.Server{Addr: *listen, Handler: http.HandlerFunc(hello), ReadHeaderTimeout: 5 * time.Second}
	root := os.Getenv("CONTAINER_ROOT") // a container runtime would change the root, which needs privileges
	server.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(filepath.Join(root, *certFile), filepath.Join(root, *keyFile))
		return &pair, err
	}}
	log.Fatal(server.ListenAndServeTLS("", ""))
}
