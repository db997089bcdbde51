//go:build long

package cli

import (
	"crypto/tls"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/pki"
)

// TestForReal takes a CA through all that an operator does, with the processes
// that do it.
func TestForReal(t *testing.T) {
	i := install(t)
	ns := newNamespace(t, "shop", map[string]string{api.LabelInject: api.InjectEnabled})
	for _, name := range []string{"web", "api", "db"} {
		makeService(t, ns, name)
	}
	address := serveSecret(t, ns, "web-tls")
	status := func() result { return cli(t, "status", "--system-namespace", i.namespace, "-n", ns) }
	verifies := func() result {
		return cli(t, "verify", "--system-namespace", i.namespace, "-n", ns, "web", "--address", address)
	}
	verify := func(t *testing.T) {
		t.Helper()
		waitFor(t, func() bool { return named(t, ns, "web") == held(t, ns, "web-tls") }, "the Secret is written before the condition")
		r := verifies()
		assert.True(t, onlyPodsAreMissing(r), r.out+r.err)
	}
	rotate := func(t *testing.T, args ...string) result {
		t.Helper()
		r := cli(t, append([]string{"rotate-ca", "-n", i.namespace}, args...)...)
		t.Logf("kubectl servingcert rotate-ca %s\n%s%s", strings.Join(args, " "), r.out, r.err)
		return r
	}
	require.Eventually(t, func() bool {
		r := status()
		return r.code == 0 && strings.Count(r.out, "  True   Issued") == 3 && regexp.MustCompile(`Trust +([1-9]\d*) of (\d+) targets hold the bundle, 0 not yet, 0 refuse it`).MatchString(r.out)
	}, patience, 100*time.Millisecond, "three certificates and a bundle that is held")
	verify(t)

	t.Run("by plan", func(t *testing.T) {
		t.Setenv(graceOfPlugin, patience.String())
		// The command looks now and then, and each phase waits until it has seen it.
		i.restartSigner(t, "--ca-soak=10s", "--ca-reissue-window=1h")
		c := start(t, plane.KubeconfigFile(), "rotate-ca", "-n", i.namespace, "--reason", "drill")
		c.shown(t, "  Wait: generation 1 signs, generation 2 is next")
		c.shown(t, "  Reissue: generation 2 signs")
		i.restartSigner(t, "--ca-soak=1s", "--ca-reissue-window=1s")
		r, err := c.wait()
		require.NoError(t, err)
		t.Logf("%s%s", r.out, r.err)
		require.Zero(t, r.code, r.err)
		assert.Regexp(t, `(?s)requested: overlap "drill".*  Wait: generation 1 signs, generation 2 is next.*  Reissue: generation 2 signs.*  Retire: generation 2 signs.*done: all 3 certificates are signed by generation 2`, r.out)
		verify(t)
		again := rotate(t, "--reason", "drill")
		assert.Zero(t, again.code, again.err)
		assert.Contains(t, again.out, "already requested; generation 2 was made and signs")
		assert.Regexp(t, `(?m)^CA +generation 2 signs`, status().out)
	})
	t.Run("a certificate", func(t *testing.T) {
		r := cli(t, "renew", "-n", ns, "web")
		assert.Zero(t, r.code, r.err)
		assert.Contains(t, r.out, ns+"/web has a new certificate in Secret web-tls: leaf ")
		verify(t)
	})
	t.Run("a stolen key", func(t *testing.T) {
		r := rotate(t, "--reason", "stolen", "--distrust-now", "--yes")
		require.Zero(t, r.code, r.err)
		assert.Contains(t, r.out, "done: a new certificate for each Service that had one (3)")
		waitFor(t, func() bool { return len(bundleOf(t, ns)) == 1 }, "the roots of before are out of the bundle")
		verify(t)
	})
	t.Run("a lost CA", func(t *testing.T) {
		require.NoError(t, admin.CoreV1().Secrets(i.namespace).Delete(t.Context(), api.CASecretName, metav1.DeleteOptions{}))
		waitFor(t, func() bool { return status().code == 1 }, "status says so")
		assert.Regexp(t, `(?m)^Problem +CALost: Secret servingcert-ca is missing`, status().out)
		r := rotate(t, "--reason", "no backup", "--replace-lost", "--yes")
		require.Zero(t, r.code, r.err)
		assert.Contains(t, r.out, "If you have a backup of Secret servingcert-ca, restore it instead")
		waitFor(t, func() bool { return status().code == 0 && len(bundleOf(t, ns)) == 1 }, "a new CA")
		waitFor(t, func() bool { return onlyPodsAreMissing(verifies()) }, "its certificate verifies under its bundle")
	})
	t.Log(status().out)
}

// onlyPodsAreMissing reports whether verify found nothing else wrong: the server is not that of a pod.
func onlyPodsAreMissing(r result) bool {
	return r.code == 1 && strings.Contains(r.out, ": NoConsumers: ") && strings.Count(r.out, "FAILED")+strings.Count(r.out, "notSeen") == 1
}

// restartSigner starts the signer again with other flags, and waits until it leads.
func (i installation) restartSigner(t *testing.T, flags ...string) {
	t.Helper()
	require.NoError(t, i.signer.Stop())
	i.signer.Args = slices.Concat(i.signer.Args, flags)
	i.signer.Start(t)
	waitFor(t, func() bool {
		lease, err := admin.CoordinationV1().Leases(i.namespace).Get(t.Context(), "servingcert-signer", metav1.GetOptions{})
		return err == nil && lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != ""
	}, "the signer leads")
}

// named is the leaf that condition Ready of a Service names, held the one in a Secret.
func named(t *testing.T, namespace, service string) string {
	t.Helper()
	svc, err := admin.CoreV1().Services(namespace).Get(t.Context(), service, metav1.GetOptions{})
	require.NoError(t, err)
	leaf, _ := state.LeafOf(svc)
	return leaf
}

func held(t *testing.T, namespace, secret string) string {
	t.Helper()
	s, err := admin.CoreV1().Secrets(namespace).Get(t.Context(), secret, metav1.GetOptions{})
	require.NoError(t, err)
	certs, err := pki.ParseCertificates(s.Data[corev1.TLSCertKey])
	require.NoError(t, err)
	return pki.Fingerprint(certs[0])
}

// serveSecret is a server that reads its Secret again for every client, as one
// that reloads its files.
func serveSecret(t *testing.T, namespace, name string) string {
	t.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{GetCertificate: secretOf(namespace, name)})
	require.NoError(t, err)
	return accept(t, listener)
}
