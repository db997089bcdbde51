package succession

import (
	"crypto/x509"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/ca"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/integration/remote/cfsslserver"
)

// takingUp are the clients that are told of new roots. The others cannot be helped
// when a CA whose key is not here is replaced: nobody signs a cross-certificate.
var takingUp = []string{"prompt", "late"}

// signedWith checks which CA signed the certificate of a Service.
func signedWith(t *scene, secret *corev1.Secret, by *x509.Certificate) {
	t.Helper()
	certs, err := pki.ParseCertificates(secret.Data[corev1.TLSCertKey])
	require.NoError(t, err)
	assert.NoError(t, certs[0].CheckSignatureFrom(by), "by %s, is by %s", by.Subject, certs[0].Issuer)
}

// The CA of the only server is replaced in its place: that is found out, nothing
// that it signs counts before it is trusted, and then it does.
func TestElsewhereIsReplacedInItsPlace(test *testing.T) {
	t := fresh(test)
	older, newer := cfsslserver.NewCA(t, "Remote CA 1"), cfsslserver.NewCA(t, "Remote CA 2")
	server := elsewhere(t, cfsslserver.Multirootca, older)
	start(t, "signer", askingAt(t, server)...)
	rotator := start(t, "trust")
	makeShop(t, "shop", services, nil)
	tr := startTraffic(t, "shop", services, time.Now, takingUp...)
	rotator.stop(t)

	server.Use(t, newer)
	newService(t, "new")
	notReady(t, "new", "CAChanged", `signed with CA "CN=Remote CA 2", but clients trust CA "CN=Remote CA 1"`)
	require.Eventually(t, func() bool { return status(t).Data[api.CAPhase] == api.PhaseWait }, 2*time.Minute, tick, "the servers are asked about once a minute")
	waiting := status(t)
	assert.Equal(t, 2, strings.Count(waiting.Data[api.BundleKey], "BEGIN CERTIFICATE"))
	notReady(t, "new", "CAChanged", "CN=Remote CA 2")
	for i := range services {
		assert.NoError(t, served(t, "shop", i)[0].CheckSignatureFrom(older.Certificate))
	}
	rotator.Start(t)
	signedBy(t, "2")
	signedWith(t, issued(t, "new"), newer.Certificate)
	require.Eventually(t, func() bool { return len(tr.issuers()) == 1 && tr.issuers()[0] == "Remote CA 2" }, waitFor, tick)
	tr.requireNoFailure(t)
}

// A CA that was here goes elsewhere, comes back, and goes there once more.
func TestToElsewhereAndBack(test *testing.T) {
	t := fresh(test)
	remote := cfsslserver.NewCA(t, "Remote CA")
	server := elsewhere(t, cfsslserver.Multirootca, remote)
	signer := start(t, "signer", fast...)
	rotator := start(t, "trust")
	makeShop(t, "shop", services, nil)
	tr := startTraffic(t, "shop", services, time.Now, takingUp...)
	old := startTraffic(t, "shop", services, time.Now, "of old")
	first := stored(t).Generations[0].Root

	rotator.stop(t)
	signer.restart(t, askingAt(t, server)...)
	eventually(t, "the CA elsewhere waits", func(cm *corev1.ConfigMap) bool { return cm.Data[api.CAPhase] == api.PhaseWait })
	newService(t, "meanwhile")
	signedWith(t, issued(t, "meanwhile"), first)
	rotator.Start(t)
	signedBy(t, "2")
	state := stored(t)
	assert.Equal(t, ca.OriginRemote, state.Generations[1].Origin)
	for key := range secret(t).Data {
		assert.False(t, strings.HasSuffix(key, ".key"), "no key is here any more, not %s", key)
	}
	chain := served(t, "shop", 0)
	require.Len(t, chain, 2, "the remote root's key, signed by generation 1")
	verifies(t, chain, first)
	verifies(t, chain, remote.Certificate)
	require.Eventually(t, func() bool { return len(old.issuers()) == 1 && old.issuers()[0] == "Remote CA" }, waitFor, tick)
	old.requireNoFailure(t)
	old.stop() // no key is left that could sign for them what follows

	signer.restart(t, fast...)
	signedBy(t, "3")
	tr.issuedBy(t, "3")
	tr.requireNoFailure(t)
	signer.restart(t, askingAt(t, server)...)
	signedBy(t, "4")
	assert.Equal(t, pki.Fingerprint(remote.Certificate), pki.Fingerprint(stored(t).Generations[3].Root))
	require.Eventually(t, func() bool { return len(tr.issuers()) == 1 && tr.issuers()[0] == "Remote CA" }, waitFor, tick)
	tr.requireNoFailure(t)
}
