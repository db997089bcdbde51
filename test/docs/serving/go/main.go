// Command server serves HTTPS, and reloads a renewed certificate.
package main

import (
	"crypto/tls"
	"flag"
	"io"
	"log"
	"net/http"
	"os"
	"sync/atomic"
	"time"
)

func main() {
	certFile := flag.String("tls-cert-file", os.Getenv("TLS_CERT_FILE"), "certificate and chain")
	keyFile := flag.String("tls-private-key-file", os.Getenv("TLS_PRIVATE_KEY_FILE"), "private key")
	flag.Parse()

	var current atomic.Pointer[tls.Certificate]
	load := func() error {
		pair, err := tls.LoadX509KeyPair(*certFile, *keyFile) // an error if they do not match
		if err == nil {
			current.Store(&pair)
		}
		return err
	}
	if err := load(); err != nil {
		log.Fatal(err)
	}
	go func() {
		for range time.Tick(2 * time.Second) {
			if err := load(); err != nil {
				log.Printf("keeping the old certificate: %v", err)
			}
		}
	}()

	server := &http.Server{
		Addr:              ":8443",
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "served\n") }),
		ReadHeaderTimeout: 10 * time.Second,
		TLSConfig: &tls.Config{
			MinVersion:     tls.VersionTLS12,
			GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return current.Load(), nil },
		},
	}
	log.Fatal(server.ListenAndServeTLS("", ""))
}
