//go:build e2e

package e2e

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/deploy"
	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/e2e/handshake"
)

// The clients of scene identities, by their ServiceAccounts in clientsNamespace. They call the server in
// plaintext, and their proxies show who they are.
const (
	listed   = "cart"
	stranger = "stranger"
)

// guarded is the server of scene identities, called without TLS.
var guarded = handshake.Target{Address: "nginx.e2e-identities:80", Name: "nginx.e2e-identities.svc", Exchange: "http", Plaintext: true}

// identify applies deploy/policies/identities.yaml and the flags of docs/identities.md, for all scenes.
func (c *cluster) identify(t *testing.T) {
	t.Helper()
	manifest, err := os.ReadFile("../../deploy/policies/identities.yaml")
	require.NoError(t, err)
	objects, err := deploy.Decode(manifest)
	require.NoError(t, err)
	require.NoError(t, deploy.ApplyObjects(t.Context(), c.admin, owner, objects))
	c.setArgs(t, "signer", "--trust-domain=e2e.example.com")
	c.setArgs(t, "webhook", "--trust-domain=e2e.example.com")
}

// identitiesScene: a server admits the pods of one ServiceAccount, and its list is changed while it runs.
func identitiesScene() *scene {
	s := &scene{
		name: "identities", about: "a server that admits one ServiceAccount, and a list that is changed while it runs", manifest: "identities.yaml",
		leftOut: func(c *cluster) string {
			if c.machine == nil {
				return "changes the arguments of signer and webhook"
			}
			return ""
		},
	}
	s.up = func(t *testing.T, c *cluster) {
		eventually(t, starting, "the clients and the server", func(ctx context.Context) error {
			return errors.Join(c.rolledOut(ctx, "e2e-identities", ""), c.rolledOut(ctx, clientsNamespace, listed), c.rolledOut(ctx, clientsNamespace, stranger))
		})
		c.admits(t, listed)
		c.refusesCaller(t, stranger)
		require.Error(t, c.calls(t.Context(), attentive), "a client without a proxy, and so without an identity")
		eventually(t, starting, "a program that shows the identity itself", func(ctx context.Context) error { return c.hasSucceeded(ctx, clientsNamespace, "shows") })
		c.isGuarded(t)

		c.admitsFromNow(t, s, "e2e-clients/*")
		c.admits(t, stranger)
		c.admits(t, listed)
		c.lists(t, "e2e-clients/"+listed)
		eventually(t, settling, "the stranger is refused again", func(ctx context.Context) error {
			if c.calls(ctx, stranger) == nil {
				return errors.New("it is admitted")
			}
			return nil
		})
		c.admits(t, listed)
		c.refusesServingCertificate(t)
		c.exchangeFrom(t, listed, []handshake.Target{guarded})
	}
	holds := func(t *testing.T, c *cluster) {
		c.admits(t, listed)
		c.refusesCaller(t, stranger)
		c.isGuarded(t)
	}
	s.renewed = func(t *testing.T, c *cluster, _ before) {
		holds(t, c)
		c.succeedsClients(t)
		holds(t, c)
	}
	s.succeeded = holds
	s.alone = func(t *testing.T, c *cluster) {
		c.renewsIdentities(t)
		holds(t, c)
		s.note("renewal and succession of the servers' certificates and of the identities: " + c.exchanged(t, listed))
	}
	return s
}

// isGuarded fails the test unless the rotator sees that all pods refuse strangers, and the proxies list who called.
func (c *cluster) isGuarded(t *testing.T) {
	t.Helper()
	eventually(t, verifying, "the rotator sees that strangers are refused", func(ctx context.Context) error {
		return c.hasCondition(ctx, "e2e-identities", "nginx", api.ConditionGuarded, "True", api.GuardedRefusing)
	})
	out, _ := c.run(t.Context(), c.tools.plugin, "clients", "nginx", "-n", "e2e-identities", "--for", "1s") // exit code 1: the stranger is refused
	assert.Regexp(t, `(?m)^e2e-clients/`+listed+` +yes `, out)
	assert.Regexp(t, `(?m)^e2e-clients/`+stranger+` +no: `, out)
}

// succeedsClients replaces the CA for clients, whose identities stay in use.
func (c *cluster) succeedsClients(t *testing.T) {
	t.Helper()
	_, err := c.run(t.Context(), c.tools.plugin, "rotate-ca", "--clients", "--reason=e2e")
	require.NoError(t, err)
	eventually(t, propagating, "another generation of the CA for clients signs", func(ctx context.Context) error {
		status := &corev1.ConfigMap{}
		err := c.admin.Get(ctx, client.ObjectKey{Namespace: api.DefaultNamespace, Name: api.ClientCAStatusName}, status)
		if generation := status.Data[api.CAGeneration]; err == nil && generation != "2" {
			err = fmt.Errorf("generation %s signs", generation)
		}
		return err
	})
}

// renewsIdentities restarts the kubelet, which then generates a new key for the identity of each pod. The
// second generation of the CA for clients has to sign that of the listed client, whose pod has to go on.
func (c *cluster) renewsIdentities(t *testing.T) {
	t.Helper()
	pods, err := c.pods(t.Context(), clientsNamespace, map[string]string{"app": listed})
	require.NoError(t, err)
	require.Len(t, pods, 1)
	require.NoError(t, c.machine.Restart(t.Context(), controlplane.Kubelet))
	eventually(t, propagating, "the identity is renewed", func(ctx context.Context) error {
		request, err := c.issuedTo(ctx, clientsNamespace, pods[0].UID)
		if err != nil {
			return err
		}
		chain, err := pki.ParseCertificates([]byte(request.Status.CertificateChain))
		if err == nil && !strings.HasPrefix(chain[0].Issuer.CommonName, "servingcert client CA 2 ") {
			err = fmt.Errorf("the last identity is signed by %q", chain[0].Issuer.CommonName)
		}
		return err
	})
}

// refusesServingCertificate fails the test if a server admits a client whose certificate is of the CA for
// servers: here, that of the server itself.
func (c *cluster) refusesServingCertificate(t *testing.T) {
	t.Helper()
	s := server{namespace: "e2e-identities", service: "nginx"}
	secret := &corev1.Secret{}
	require.NoError(t, c.admin.Get(t.Context(), client.ObjectKey{Namespace: s.namespace, Name: "nginx-tls"}, secret))
	pair, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	require.NoError(t, err)
	pods, err := c.podsOf(t.Context(), s)
	require.NoError(t, err)
	for i := range pods {
		proxy, ok := api.ProxyOf(&pods[i])
		require.True(t, ok)
		require.Len(t, proxy.Listeners, 1)
		s.port = int(proxy.Listeners[0].Port)
		err := c.callsAs(t, s.atPod(&pods[i]).Address, &pair)
		assert.ErrorContains(t, err, "remote error: tls: bad certificate", "pod %s", pods[i].Name)
	}
}

// callsAs makes a request with a client certificate, and returns why the server did not answer.
func (c *cluster) callsAs(t *testing.T, address string, pair *tls.Certificate) error {
	t.Helper()
	raw, err := c.machine.Dialer().DialContext(t.Context(), "tcp", address)
	require.NoError(t, err)
	defer raw.Close()
	require.NoError(t, raw.SetDeadline(time.Now().Add(settling)))
	conn := tls.Client(raw, &tls.Config{
		InsecureSkipVerify:   true, //nolint:gosec // asks whom the server admits, not who it is
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return pair, nil },
	})
	_, err = fmt.Fprintf(conn, "GET / HTTP/1.0\r\n\r\n")
	if err == nil { // TLS 1.3 shows a refusal to the client's first read
		_, err = conn.Read(make([]byte, 1))
	}
	return err
}

// calls makes a client call the guarded server once.
func (c *cluster) calls(ctx context.Context, client string) error {
	return c.ask(ctx, client, http.MethodPost, "shake", guarded)
}

// admits fails the test unless the client is admitted.
func (c *cluster) admits(t *testing.T, client string) {
	t.Helper()
	eventually(t, settling, client+" is admitted", func(ctx context.Context) error { return c.calls(ctx, client) })
}

// refusesCaller fails the test if one of several calls of the client is admitted.
func (c *cluster) refusesCaller(t *testing.T, client string) {
	t.Helper()
	for range 3 {
		assert.Error(t, c.calls(t.Context(), client), client)
	}
}

// lists sets the clients of the guarded Service.
func (c *cluster) lists(t *testing.T, clients string) {
	t.Helper()
	c.annotate(t, server{namespace: "e2e-identities", service: "nginx"}, api.AnnotationClients, clients)
}

// admitsFromNow changes the list, and notes how soon the pods have it, which keep running.
func (c *cluster) admitsFromNow(t *testing.T, s *scene, clients string) {
	t.Helper()
	names := func() (out []string) {
		pods, err := c.clients.CoreV1().Pods("e2e-identities").List(t.Context(), metav1.ListOptions{FieldSelector: "status.phase=" + string(corev1.PodRunning)})
		require.NoError(t, err)
		for i := range pods.Items {
			out = append(out, pods.Items[i].Name)
		}
		return out
	}
	before, start := names(), time.Now()
	c.lists(t, clients)
	eventually(t, settling, "the stranger is admitted", func(ctx context.Context) error { return c.calls(ctx, stranger) })
	s.note(fmt.Sprintf("a changed list was in force %s later, in the same pods", seconds(time.Since(start))))
	assert.Equal(t, before, names())
}
