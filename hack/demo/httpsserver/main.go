// Command httpsserver is the demo's workload: a server as many are, that speaks
// HTTPS when it is given the two files, reads them again when they change, and
// knows nothing of servingcert.
package main

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

// envRoot names the directory that stands for the container's root. A real
// container's runtime would change the root, which takes more rights than a demo
// should ask for.
const envRoot = "CONTAINER_ROOT"

func main() {
	listen := flag.String("listen", ":8080", "address to listen on")
	certFile := flag.String("tls-cert-file", "", "certificate and chain; without it the server speaks plain HTTP")
	keyFile := flag.String("tls-private-key-file", "", "private key")
	flag.Parse()
	server := &http.Server{Addr: *listen, Handler: http.HandlerFunc(hello), ReadHeaderTimeout: 5 * time.Second}
	log.Printf("pid %d listens on %s, certificate %q", os.Getpid(), *listen, *certFile)
	if *certFile == "" {
		log.Fatal(server.ListenAndServe())
	}
	root, err := os.OpenRoot(cmp.Or(os.Getenv(envRoot), "/"))
	if err != nil {
		log.Fatal(err)
	}
	pair := &reloading{root: root.FS(), certFile: *certFile, keyFile: *keyFile}
	server.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: pair.get}
	log.Fatal(server.ListenAndServeTLS("", ""))
}

func hello(w http.ResponseWriter, _ *http.Request) {
	_, _ = fmt.Fprintf(w, "hello from process %d\n", os.Getpid())
}

// reloading is a key pair that is read again at a handshake if the files hold
// something else than before: they are small, and a symlink swap is seen for sure.
type reloading struct {
	root              fs.FS
	certFile, keyFile string

	mu              sync.Mutex
	certPEM, keyPEM []byte
	pair            *tls.Certificate
}

func (r *reloading) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	certPEM, err := r.read(r.certFile)
	if err != nil {
		return nil, err
	}
	keyPEM, err := r.read(r.keyFile)
	if err != nil {
		return nil, err
	}
	if r.pair != nil && bytes.Equal(certPEM, r.certPEM) && bytes.Equal(keyPEM, r.keyPEM) {
		return r.pair, nil
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, err
	}
	r.certPEM, r.keyPEM, r.pair = certPEM, keyPEM, &pair
	log.Printf("loaded certificate %x", pair.Leaf.SerialNumber)
	return r.pair, nil
}

func (r *reloading) read(path string) ([]byte, error) {
	return fs.ReadFile(r.root, strings.TrimPrefix(path, "/"))
}
