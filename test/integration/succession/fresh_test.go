package succession

import (
	"crypto/x509"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/ca"
	"github.com/servingcert/servingcert/pkg/pki"
)

// fresh gives the test a control plane of its own, with servingcert installed:
// that of the package has the CA of another test.
func fresh(t *testing.T) {
	t.Helper()
	own, clientset, err := installed(t.Context())
	require.NoError(t, err)
	shared, sharedAdmin := plane, admin
	plane, admin = own, clientset
	t.Cleanup(func() {
		plane, admin = shared, sharedAdmin
		assert.NoError(t, own.Stop())
	})
}

// fast are the flags of a signer whose successions take seconds.
var fast = []string{"--ca-soak=2s", "--ca-reissue-window=2s"}

// stop ends the program as a kubelet does, so that another can lead at once.
func (p *process) stop(t *testing.T) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, p.cmd.Wait())
}

// served is what the Secret of Service web-i holds: the leaf, and what follows it.
func served(t *testing.T, namespace string, i int) []*x509.Certificate {
	t.Helper()
	secret, err := admin.CoreV1().Secrets(namespace).Get(t.Context(), secretOf(i), metav1.GetOptions{})
	require.NoError(t, err)
	certs, err := pki.ParseCertificates(secret.Data[corev1.TLSCertKey])
	require.NoError(t, err)
	return certs
}

// signedBy waits until the generation signs and has replaced all certificates.
func signedBy(t *testing.T, generation string) *corev1.ConfigMap {
	t.Helper()
	return eventually(t, "generation "+generation+" has replaced all certificates", func(cm *corev1.ConfigMap) bool {
		return cm.Data[api.CAGeneration] == generation && cm.Data[api.CAPhase] == api.PhaseRetire &&
			cm.Data[api.CALeaves] != "" && cm.Data[api.CALeaves] == cm.Data[api.CAReplaced]
	})
}

// stored is what the CA Secret holds.
func stored(t *testing.T) ca.State {
	t.Helper()
	s, err := ca.ParseState(secret(t).Data)
	require.NoError(t, err)
	return s
}

// said returns the notes of the events about the CA that have the reason.
func said(t *testing.T, reason string) []string {
	t.Helper()
	events, err := admin.EventsV1().Events(api.DefaultNamespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	var notes []string
	for _, e := range events.Items {
		if e.Reason == reason && e.Regarding.Name == api.CASecretName {
			notes = append(notes, e.Note)
		}
	}
	return notes
}

func requireSaid(t *testing.T, reason string) {
	t.Helper()
	require.Eventually(t, func() bool { return len(said(t, reason)) > 0 }, waitFor, tick, "event %s", reason)
}

// verifies checks the chain as a client does that holds one root only.
func verifies(t *testing.T, chain []*x509.Certificate, root *x509.Certificate) {
	t.Helper()
	assert.NoError(t, pki.VerifyServing(chain[0], chain[1:], root, chain[0].NotBefore.Add(pki.Backdate)), "with %s alone", root.Subject)
}
