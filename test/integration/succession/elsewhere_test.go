package succession

import (
	"context"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/ca"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/integration/remote/cfsslserver"
)

// site has cfssl's own servers, built when the first test needs them.
var site = sync.OnceValues(func() (*cfsslserver.Site, error) {
	dir := filepath.Join(bin, "cfssl")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	return cfsslserver.NewSite(context.Background(), dir)
})

// elsewhere runs a server that signs with ca.
func elsewhere(t *scene, kind cfsslserver.Kind, ca *cfsslserver.CA) *cfsslserver.Server {
	t.Helper()
	s, err := site()
	require.NoError(t, err)
	return s.Start(t, kind, ca)
}

// askingAt are the flags of a signer whose CA is at the servers.
func askingAt(t *scene, servers ...*cfsslserver.Server) []string {
	t.Helper()
	s, err := site()
	require.NoError(t, err)
	return append(s.Flags(servers...), fast...)
}

// restart runs the program with other flags.
func (p *process) restart(t *scene, flags ...string) {
	t.Helper()
	p.stop(t)
	p.Args = slices.Concat(p.flags, flags)
	p.Start(t)
}

// written is what the signer has written in shop: Secrets by their version, and its
// part of Services.
func written(t *scene) map[string]string {
	t.Helper()
	versions := map[string]string{}
	secrets, err := t.admin.CoreV1().Secrets("shop").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	for _, s := range secrets.Items {
		versions["Secret "+s.Name] = s.ResourceVersion
	}
	list, err := t.admin.CoreV1().Services("shop").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	for _, s := range list.Items {
		// The rotator writes another condition.
		versions["Service "+s.Name] = fmt.Sprint(s.Annotations, api.Condition(&s, api.ConditionReady))
	}
	return versions
}

// A cluster whose CA was elsewhere from the beginning, from either server: under a
// root, and under an intermediate.
func TestElsewhere(t *testing.T) {
	t.Parallel()
	for _, kind := range []cfsslserver.Kind{cfsslserver.Serve, cfsslserver.Multirootca} {
		t.Run(string(kind), func(test *testing.T) {
			t := fresh(test)
			root := cfsslserver.NewCA(t, "Remote Root")
			issuing, between := root, []*x509.Certificate(nil)
			flags := []string{}
			if kind == cfsslserver.Multirootca {
				issuing = root.Below(t, "Remote Issuing CA")
				between = []*x509.Certificate{issuing.Certificate}
				bundle := filepath.Join(t.TempDir(), "bundle.pem")
				require.NoError(t, os.WriteFile(bundle, pki.EncodeCertificates(root.Certificate), 0o600))
				flags = append(flags, "--cfssl-bundle="+bundle)
			}
			server := elsewhere(t, kind, issuing)
			signer := start(t, "signer", append(flags, askingAt(t, server)...)...)
			start(t, "trust")
			makeShop(t, "shop", 3, nil)
			tr := startTraffic(t, "shop", 3, time.Now)

			state := stored(t)
			require.Len(t, state.Generations, 1)
			assert.Equal(t, ca.OriginRemote, state.Generations[0].Origin)
			assert.NotContains(t, secret(t).Data, "generation-1.key")
			for i := range 3 {
				chain := served(t, "shop", i)
				assert.Equal(t, between, append([]*x509.Certificate(nil), chain[1:]...))
				verifies(t, chain, root.Certificate)
			}
			serverAway(t, server)
			profiles(t, kind, server)
			tr.requireNoFailure(t)
			assertNoHMACKey(t, signer.Log.String())
		})
	}
}

// serverAway has the server go away: what exists stays as it is, and what is new
// says why it waits until the server is back.
func serverAway(t *scene, server *cfsslserver.Server) {
	t.Helper()
	for i := range 3 {
		issued(t, fmt.Sprintf("web-%d", i)) // the condition is written after the Secret
	}
	before := written(t)
	server.Stop()
	newService(t, "away")
	notReady(t, "away", "CAUnreachable", server.URL+": connect: connection refused")
	now := written(t)
	for name, version := range before {
		assert.Equal(t, version, now[name], name)
	}
	server.Start(t)
	issued(t, "away")
}

// profiles has the server sign other certificates than asked for: shorter-lived
// ones are taken and not asked for again and again, others are refused.
func profiles(t *scene, kind cfsslserver.Kind, server *cfsslserver.Server) {
	t.Helper()
	configured := func(old, changed string) {
		t.Helper()
		server.Configure(t, func(profiles string) string {
			require.Contains(t, profiles, old)
			return strings.ReplaceAll(profiles, old, changed)
		})
	}
	configured(`"719h"`, `"20h"`)
	newService(t, "short")
	certs, err := pki.ParseCertificates(issued(t, "short").Data[corev1.TLSCertKey])
	require.NoError(t, err)
	want := api.DefaultLimits().DefaultDuration
	if kind == cfsslserver.Serve {
		want = 20 * time.Hour
	}
	assert.Equal(t, want, pki.Lifetime(certs[0]))
	before := written(t)
	assert.Never(t, func() bool { return !assert.ObjectsAreEqual(before, written(t)) }, 4*time.Second, 200*time.Millisecond, "written again")

	configured(`"digital signature", "server auth"`, `"digital signature", "server auth", "client auth"`)
	newService(t, "wrong")
	notReady(t, "wrong", "SigningRefused", "must be serverAuth only")
	server.Configure(t, func(profiles string) string { return profiles })
	issued(t, "wrong")
}

// assertNoHMACKey looks for the key that requests are authenticated with.
func assertNoHMACKey(t *scene, log string) {
	t.Helper()
	s, err := site()
	require.NoError(t, err)
	key, err := os.ReadFile(s.AuthKeyFile)
	require.NoError(t, err)
	assert.NotContains(t, log, strings.TrimSpace(string(key)))
}
