// Command server is the HTTPS server of the end-to-end scenes, with flags for two files. It does
// not know servingcert.
//
// By default, it reloads the files when they change. With --reload=false, it reads them once, as
// most servers do. The other flags make it a server that is hard to verify.
package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"flag"
	"fmt"
	"log"
	"math/big"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// shutdownTimeout is how long the server waits for open connections at its end. The kubelet kills it after 30 s.
const shutdownTimeout = 10 * time.Second

// options are the flags.
type options struct {
	listen            string
	certFile, keyFile string
	reload            bool
	plain             bool
	demandClientCert  bool
	ownCertificate    string
}

func main() {
	var o options
	flag.StringVar(&o.listen, "listen", ":8443", "address to listen on")
	flag.StringVar(&o.certFile, "tls-cert-file", "", "certificate and chain")
	flag.StringVar(&o.keyFile, "tls-private-key-file", "", "private key")
	flag.BoolVar(&o.reload, "reload", true, "reload the files when they change")
	flag.BoolVar(&o.plain, "plain", false, "serve plain HTTP even if files are given")
	flag.BoolVar(&o.demandClientCert, "demand-client-certificate", false, "require a client certificate")
	flag.StringVar(&o.ownCertificate, "own-certificate", "", "serve a self-signed certificate for this name even if files are given")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	err := o.serve(ctx)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func (o options) serve(ctx context.Context) error {
	// Also the timeout of a handshake, longer than that of the clients.
	server := &http.Server{Addr: o.listen, Handler: http.HandlerFunc(hello), ReadHeaderTimeout: time.Minute}
	listen := server.ListenAndServe
	if !o.plain {
		config, err := o.tlsConfig()
		if err != nil {
			return err
		}
		server.TLSConfig = config
		listen = func() error { return server.ListenAndServeTLS("", "") }
	}
	log.Printf("listening on %s", o.listen)
	ended := make(chan error, 1)
	go func() { ended <- listen() }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	return errors.Join(server.Shutdown(ctx), ignoreClosed(<-ended))
}

func ignoreClosed(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// hello responds with the pod's host name.
func hello(w http.ResponseWriter, _ *http.Request) {
	name, err := os.Hostname()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_, _ = fmt.Fprintf(w, "hello from %s\n", name)
}

func (o options) tlsConfig() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.demandClientCert {
		config.ClientAuth = tls.RequireAnyClientCert
	}
	switch {
	case o.ownCertificate != "":
		pair, err := selfSigned(o.ownCertificate, time.Now())
		config.Certificates = []tls.Certificate{pair}
		return config, err
	case o.certFile == "" || o.keyFile == "":
		return nil, errors.New("--tls-cert-file and --tls-private-key-file are required")
	}
	pair := &keyPair{certFile: o.certFile, keyFile: o.keyFile}
	if err := pair.load(); err != nil {
		return nil, err
	}
	config.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		if o.reload {
			pair.reload()
		}
		return pair.current(), nil
	}
	return config, nil
}

// selfSigned returns a self-signed certificate.
func selfSigned(name string, now time.Time) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: name},
		DNSNames:     []string{name},
		NotBefore:    now.Add(-time.Minute),
		NotAfter:     now.Add(24 * time.Hour),
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}
