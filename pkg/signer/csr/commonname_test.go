package csr

import (
	"crypto/x509"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

// RFC 5280 allows 64 characters (ub-common-name).
func TestTheLongestCommonName(t *testing.T) {
	name := strings.Repeat("a", 51) + ".web.shop.svc"
	assert.Len(t, name, 64)
	s := approved(t)
	s.Services[0].Annotations[api.AnnotationExtraDNSNames] = name
	s.ask(requestOf(t, newKey(t, pki.ECDSAP256), []string{name}, func(r *x509.CertificateRequest) { r.Subject.CommonName = name }))
	d := Decide(s)
	assert.Equal(t, Sign, d.Verdict, d.Message)
}
