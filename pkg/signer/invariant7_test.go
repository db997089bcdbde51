package signer_test

import (
	"testing"

	cfssllog "github.com/cloudflare/cfssl/log"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/signer"
	"github.com/servingcert/servingcert/pkg/signer/cfssl"
)

// Invariant 7, the signer's part. It is here because package cfssl imports
// package signer.
func TestInvariant7NoPrivateKeyInMessages(t *testing.T) {
	cfssllog.Level = cfssllog.LevelError // otherwise it logs every certificate
	sign, err := cfssl.NewLocal()
	require.NoError(t, err)
	signer.CheckInvariant7(t, sign)
}
