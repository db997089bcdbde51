package controller

import (
	"context"
	"crypto/x509"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer/issue"
	"github.com/servingcert/servingcert/test/signertest"
)

// What the tests of several packages start from.
var (
	epoch       = signertest.Epoch
	testCA      = signertest.CA
	service     = signertest.Service
	wantedBy    = signertest.WantedBy
	generations = signertest.Generations
)

func requestOf(namespace, name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
}

// plainSign signs with crypto/x509 alone what the request asks for.
func plainSign(_ context.Context, ca *pki.Authority, request issue.SigningRequest) (*x509.Certificate, error) {
	return signertest.Sign(ca, signertest.Request(request))
}

// issueBy makes the pair that ca gives at epoch.
func issueBy(t require.TestingT, ca *pki.Authority, wanted api.Wanted) issue.Issued {
	issued, err := issue.Issue(context.Background(), plainSign, ca, wanted, epoch)
	require.NoError(t, err)
	return issued
}

// managed returns Secret web-tls as the signer makes it, without owners.
func managed(issued issue.Issued) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-tls", Labels: map[string]string{api.LabelManagedBy: api.DefaultInstance}},
		Type:       corev1.SecretTypeTLS,
		Data:       map[string][]byte{corev1.TLSCertKey: issued.CertPEM, corev1.TLSPrivateKeyKey: issued.KeyPEM},
	}
}
