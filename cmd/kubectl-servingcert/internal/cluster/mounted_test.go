package cluster

import (
	"crypto/x509"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/status"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/rotatortest"
)

// TestWhatMayBeServedFromASecret: a certificate under any key, but no CA's, and nothing that is not opened.
func TestWhatMayBeServedFromASecret(t *testing.T) {
	ca := rotatortest.NewCA(t, 1, time.Now())
	leaf := ca.Issue(t, time.Now(), "web.shop.svc").Leaf
	pem := func(c *x509.Certificate) string { return string(pki.NewBundle(c).PEM()) }
	damaged := "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
	for name, tt := range map[string]struct {
		data   map[string]string
		leaves []*x509.Certificate
		read   bool
	}{
		"a certificate":         {map[string]string{"tls.crt": pem(leaf), "tls.key": "x"}, []*x509.Certificate{leaf}, true},
		"of another name":       {map[string]string{"server.pem": pem(leaf) + pem(ca.Root)}, []*x509.Certificate{leaf}, true},
		"roots":                 {map[string]string{"ca.pem": pem(ca.Root)}, nil, true},
		"signed by itself":      {map[string]string{"tls.crt": pem(ca.Root)}, []*x509.Certificate{ca.Root}, true},
		"damaged":               {map[string]string{"tls.crt": damaged}, nil, false},
		"damaged, another name": {map[string]string{"server.pem": damaged}, nil, false},
		"empty":                 {map[string]string{"tls.crt": ""}, nil, false},
		"a keystore":            {map[string]string{"tls.crt": pem(leaf), "keystore.P12": "x"}, []*x509.Certificate{leaf}, false},
		"a password":            {map[string]string{"password": "x"}, nil, true},
	} {
		data := map[string][]byte{}
		for key, value := range tt.data {
			data[key] = []byte(value)
		}
		assert.Equal(t, status.MountedSecret{Leaves: tt.leaves, Read: tt.read}, mountedSecret(data), name)
	}
}
