package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer/issue"
)

// answer is the HTTP response of all servers: a client that has read it has completed the handshake.
const answer = "served\n"

// files returns the server's tls.crt and tls.key.
func (s *server) files(ctx context.Context, sign issue.Sign, now time.Time) (cert, key []byte, err error) {
	authority := s.ca.authority(s.signing, now)
	wanted, members, _ := api.Merge([]*corev1.Service{s.service}, api.DefaultLimits())
	if err := members[0].Err; err != nil {
		return nil, nil, err
	}
	issued, err := issue.Issue(ctx, sign, authority, wanted, now)
	if err != nil {
		return nil, nil, err
	}
	leaf, key := issued.Leaf, issued.KeyPEM
	if len(s.badNames)+len(s.badIPs) > 0 {
		request := issue.SigningRequest{
			DNSNames: append(wanted.DNSNames, s.badNames...), IPs: s.badIPs,
			KeyAlgorithm: pki.ECDSAP256, NotBefore: leaf.NotBefore, NotAfter: leaf.NotAfter,
		}
		if leaf, key, err = unchecked(ctx, sign, authority, request); err != nil {
			return nil, nil, err
		}
	}
	if s.bad != nil {
		if leaf, err = changed(leaf, authority, s.bad); err != nil {
			return nil, nil, err
		}
	}
	served := []*x509.Certificate{leaf}
	if !s.unordered {
		served = append(served, authority.Chain...)
	}
	if s.tail != nil {
		served = append(served, s.tail(authority)...)
	}
	return pki.EncodeCertificates(served...), key, nil
}

// unchecked signs a certificate that issue.Issue would reject, for a new key.
func unchecked(ctx context.Context, sign issue.Sign, authority *pki.Authority, request issue.SigningRequest) (*x509.Certificate, []byte, error) {
	key, err := pki.GenerateKey(request.KeyAlgorithm)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		return nil, nil, err
	}
	request.CSR = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	leaf, err := sign(ctx, authority, request)
	if err != nil {
		return nil, nil, err
	}
	keyPEM, err := pki.EncodeKey(key)
	return leaf, keyPEM, err
}

// changed returns a changed leaf for the same key.
func changed(leaf *x509.Certificate, authority *pki.Authority, change func(*x509.Certificate)) (*x509.Certificate, error) {
	template := *leaf
	template.ExtraExtensions = nil
	change(&template)
	der, err := x509.CreateCertificate(rand.Reader, &template, authority.Certificate, leaf.PublicKey, authority.Key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// running is a server that can be connected to.
type running struct {
	*server
	served []*x509.Certificate
	port   int
}

// promised returns the required outcome for a client with the bundle.
func (r running) promised(b bundle, st stack, now time.Time) verdict {
	promise := mustRefuse
	if r.held == nil && b.verifies(r.ca, r.signing, now) {
		promise = mustVerify
		if st.needsLast && !r.lastIsNamed(b, now) {
			promise = noPromise
		}
	}
	if r.judge == nil {
		return promise
	}
	return r.judge(promise, b, st)
}

// lastIsNamed reports whether the subject or the issuer of the last served certificate is the name of
// an unexpired root in the bundle.
func (r running) lastIsNamed(b bundle, now time.Time) bool {
	last := r.served[len(r.served)-1]
	return slices.ContainsFunc(b.roots, func(n int) bool {
		root := r.bundlesOf().of(n).root
		named := bytes.Equal(root.RawSubject, last.RawIssuer) || bytes.Equal(root.RawSubject, last.RawSubject)
		return named && !now.After(root.NotAfter)
	})
}

// serve starts the server on a free port of loopback, until ctx ends.
func serve(ctx context.Context, s *server, sign issue.Sign, now time.Time) (running, error) {
	cert, key, err := s.files(ctx, sign, now)
	if err != nil {
		return running{}, fmt.Errorf("issue the certificate of %s: %w", s, err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return running{}, fmt.Errorf("load the certificate of %s: %w", s, err)
	}
	certs, err := pki.ParseCertificates(cert)
	if err != nil {
		return running{}, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return running{}, err
	}
	web := &http.Server{
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, answer) }),
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12},
		ReadHeaderTimeout: clientTime,
		ErrorLog:          log.New(io.Discard, "", 0), // clients that reject the certificate hang up
	}
	context.AfterFunc(ctx, func() { _ = web.Close() })
	go func() { _ = web.ServeTLS(listener, "", "") }()
	return running{server: s, served: certs, port: listener.Addr().(*net.TCPAddr).Port}, nil
}

// String returns the server's name in the table: the signing generation, and what is special.
func (s *server) String() string {
	name := fmt.Sprintf("%d, %s", s.signing, s.host)
	if s.held != nil {
		name = s.host
	}
	if s.note != "" {
		name += ": " + s.note
	}
	return name
}

// chain describes the served certificates as in the documentation: the leaf, a root by its
// generation, and X(2←1) for a cross-certificate of 2 by 1.
func (r running) chain() string {
	names := []string{"leaf"}
	for _, c := range r.served[1:] {
		subject, issuer := generationOf(c.Subject.CommonName), generationOf(c.Issuer.CommonName)
		name := fmt.Sprintf("X(%s←%s)", subject, issuer)
		if subject == issuer {
			name = "root " + subject
		}
		if time.Now().After(c.NotAfter) {
			name += " expired"
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

// generationOf parses "servingcert CA 2 0a1b2c3d".
func generationOf(commonName string) string {
	words := strings.Fields(commonName)
	return words[len(words)-2]
}
