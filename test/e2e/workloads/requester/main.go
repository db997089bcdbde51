// Command requester is an HTTPS server that generates its own keys: client-go's
// certificate.Manager requests its certificates with CertificateSigningRequests and the token of
// the pod. The requested names can be changed over plain HTTP:
//
//	PUT /template   a JSON object: {"commonName": "…", "dnsNames": ["…"]}
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/certificate"
)

// asked contains the requested names.
type asked struct {
	CommonName string   `json:"commonName"`
	DNSNames   []string `json:"dnsNames"`
}

// template is the current template of requests.
type template struct{ asked atomic.Pointer[asked] }

// request returns a new value each time, as the manager stores and compares them.
func (t *template) request() *x509.CertificateRequest {
	a := t.asked.Load()
	return &x509.CertificateRequest{Subject: pkix.Name{CommonName: a.CommonName}, DNSNames: slices.Clone(a.DNSNames)}
}

func (t *template) change(w http.ResponseWriter, r *http.Request) {
	var a asked
	if err := json.NewDecoder(r.Body).Decode(&a); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	t.asked.Store(&a)
	log.Printf("requesting %q and %q", a.CommonName, a.DNSNames)
}

func main() {
	listen := flag.String("listen", ":8443", "address to serve on")
	control := flag.String("control", ":8080", "address for requests")
	names := flag.String("names", "", "DNS names to request, comma-separated")
	signer := flag.String("signer", "", "name of the signer")
	lifetime := flag.Duration("lifetime", 24*time.Hour, "lifetime to request")
	dir := flag.String("dir", "", "directory for the keys and certificates")
	flag.Parse()
	t := &template{}
	t.asked.Store(&asked{DNSNames: strings.Split(*names, ",")})
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	manager, err := newManager(ctx, *signer, *dir, *lifetime, t.request)
	if err == nil {
		manager.Start()
		err = serve(ctx, manager, t, *listen, *control)
	}
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func newManager(ctx context.Context, signer, dir string, lifetime time.Duration, request func() *x509.CertificateRequest) (certificate.Manager, error) {
	config, err := rest.InClusterConfig()
	if err != nil {
		return nil, err
	}
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	store, err := certificate.NewFileStore("server", dir, dir, "", "")
	if err != nil {
		return nil, err
	}
	return certificate.NewManager(&certificate.Config{
		Ctx:                          &ctx,
		ClientsetFn:                  func(*tls.Certificate) (kubernetes.Interface, error) { return clientset, nil },
		GetTemplate:                  request,
		SignerName:                   signer,
		RequestedCertificateLifetime: &lifetime,
		GetUsages:                    certificate.DefaultKubeletServingGetUsages,
		CertificateStore:             store,
	})
}

// serve serves until ctx ends.
func serve(ctx context.Context, manager certificate.Manager, t *template, listen, control string) error {
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /template", t.change)
	controlled := &http.Server{Addr: control, Handler: mux, ReadHeaderTimeout: time.Minute}
	server := &http.Server{Addr: listen, Handler: http.HandlerFunc(hello), ReadHeaderTimeout: time.Minute, TLSConfig: &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			if c := manager.Current(); c != nil {
				return c, nil
			}
			return nil, errors.New("no certificate yet")
		},
	}}
	ended := make(chan error, 2)
	go func() { ended <- controlled.ListenAndServe() }()
	go func() { ended <- server.ListenAndServeTLS("", "") }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return errors.Join(server.Close(), controlled.Close())
	}
}

func hello(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "hello from a manager") }
