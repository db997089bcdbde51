package pki_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/signertest"
)

func TestStatements(t *testing.T) {
	text, other := []byte("a statement"), []byte("another")
	for _, algorithm := range []pki.KeyAlgorithm{pki.ECDSAP256, pki.ECDSAP384, pki.Ed25519, pki.RSA2048} {
		key, err := pki.GenerateKey(algorithm)
		require.NoError(t, err)
		ca, err := pki.NewRoot(key, 1, signertest.ClusterNames, signertest.Epoch, signertest.Epoch.Add(signertest.Day))
		require.NoError(t, err)
		signature, err := pki.SignStatement(key, text)
		require.NoError(t, err)
		again, err := pki.SignStatement(key, text)
		require.NoError(t, err)
		assert.Equal(t, signature, again, "%s: the same text has the same signature", algorithm)
		require.NoError(t, pki.VerifyStatement(ca, text, signature), algorithm)
		require.Error(t, pki.VerifyStatement(ca, other, signature), algorithm)
		require.Error(t, pki.VerifyStatement(ca, text, nil), algorithm)
		theirs, err := pki.GenerateKey(algorithm)
		require.NoError(t, err)
		forged, err := pki.SignStatement(theirs, text)
		require.NoError(t, err)
		require.Error(t, pki.VerifyStatement(ca, text, forged), algorithm)
	}
}
