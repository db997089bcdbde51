package signer

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

// causeOf returns why ca.crt does not verify the leaf. sent are the leaf and its chain, inCA the certificates in
// ca.crt, own the roots among them that the chain names, and err that of the verification with these.
func causeOf(sent, inCA, own []*x509.Certificate, err error) string {
	isCA := func(c *x509.Certificate) bool { return c.IsCA }
	var unknown x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	end := last(sent)
	switch {
	case !slices.ContainsFunc(inCA, isCA):
		return api.BundleKey + " holds no CA certificate"
	case !slices.ContainsFunc(inCA, pki.SelfIssued):
		return api.BundleKey + " holds no root, and an intermediate is not enough for every client"
	case !slices.ContainsFunc(own, func(c *x509.Certificate) bool { return bytes.Equal(c.RawSubject, end.RawIssuer) }):
		return missingIssuer(end, inCA)
	case errors.As(err, &unknown):
		return "the root of that name in " + api.BundleKey + " has another key than the one that signed it"
	}
	if errors.As(err, &invalid) && invalid.Reason == x509.Expired {
		return "a certificate of its chain is not valid now" // the error has the time
	}
	return err.Error()
}

// missingIssuer returns what is known of the issuer of the last certificate that is sent.
func missingIssuer(last *x509.Certificate, inCA []*x509.Certificate) string {
	name := api.Shorten(last.Issuer.CommonName, maxIssuer)
	if slices.ContainsFunc(inCA, func(c *x509.Certificate) bool { return bytes.Equal(c.RawSubject, last.RawIssuer) }) {
		return fmt.Sprintf("intermediate %q is in %s, and is missing in tls.crt", name, api.BundleKey)
	}
	return fmt.Sprintf("there is no certificate of %q: an intermediate is missing in tls.crt, or %s is of another CA", name, api.BundleKey)
}

// last returns the certificate at the end of the chain that begins with the first.
func last(sent []*x509.Certificate) *x509.Certificate {
	end := sent[0]
	for range sent {
		i := slices.IndexFunc(sent, func(c *x509.Certificate) bool { return bytes.Equal(c.RawSubject, end.RawIssuer) })
		if i < 0 {
			break
		}
		end = sent[i]
	}
	return end
}
