//go:build e2e

package e2e

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
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

var (
	// identitiesServer is the server of scene identities, whose ports are 443 and 80.
	identitiesServer = server{namespace: "e2e-identities", service: "nginx"}
	// guarded is the server of scene identities, called without TLS.
	guarded = handshake.Target{Address: "nginx.e2e-identities:80", Name: "nginx.e2e-identities.svc", Exchange: "http", Plaintext: true}
)

// guardedTargets are its names in the clients' hosts file.
func guardedTargets() []handshake.Target {
	all := []handshake.Target{guarded, guarded, guarded}
	all[1].Address, all[2].Address = "nginx.e2e-identities.svc:80", "nginx.e2e-identities.svc.cluster.local:80"
	return all
}

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

// identitiesScene: a server admits the pods of one ServiceAccount, and its list is changed while it runs. Then list, proxies
// and TLS are removed again, step by step.
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
		c.refusesOtherCertificates(t)
		c.exchangeFrom(t, listed, guardedTargets())
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
		s.note(c.renewsIdentities(t))
		holds(t, c)
		s.note("renewal and succession of the servers' certificates and of the identities: " + c.exchanged(t, listed))
		c.opens(t)
		s.note("and back to no list: " + c.exchanged(t, listed))
		c.changes(t, "patch", "--type=json", `--patch=[{"op":"replace","path":"/spec/ports/1/targetPort","value":8080}]`)
		c.withoutProxy(t, listed)
		c.exchangeFrom(t, listed, guardedTargets())
		c.removesTLS(t)
		s.note("and to no proxy and no TLS: " + c.exchanged(t, listed))
	}
	return s
}

// isGuarded fails the test unless the rotator sees that all pods refuse strangers, and the proxies list who called.
func (c *cluster) isGuarded(t *testing.T) {
	t.Helper()
	eventually(t, verifying, "the rotator sees that strangers are refused", func(ctx context.Context) error {
		return c.hasCondition(ctx, "e2e-identities", "nginx", api.ConditionGuarded, "True", api.GuardedRefusing)
	})
	// A kubelet that was restarted leads to no pod for some seconds: the verb then says which proxies did not answer.
	eventually(t, settling, "the proxies list both clients", func(ctx context.Context) error {
		out, _ := c.run(ctx, c.tools.plugin, "clients", "nginx", "-n", "e2e-identities", "--for", "1s") // exit code 1: the stranger is refused
		for _, want := range []string{listed + " +yes ", stranger + " +no: "} {
			if !regexp.MustCompile("(?m)^e2e-clients/" + want).MatchString(out) {
				return fmt.Errorf("no line %q in:\n%s", want, out)
			}
		}
		return nil
	})
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

// renewsIdentities restarts the kubelet, which then generates a new key for the identity of each pod that connects, also
// of other scenes. The second generation of the CA for clients has to sign each, and the pods have to go on.
func (c *cluster) renewsIdentities(t *testing.T) string {
	t.Helper()
	pods, err := c.pods(t.Context(), metav1.NamespaceAll, nil)
	require.NoError(t, err)
	pods = slices.DeleteFunc(pods, func(pod corev1.Pod) bool {
		proxy, ok := api.ProxyOf(&pod)
		return !ok || len(proxy.Connects) == 0 || pod.Status.Phase != corev1.PodRunning
	})
	require.GreaterOrEqual(t, len(pods), 2, "pods that connect")
	since := time.Now().Truncate(time.Second) // as creationTimestamp
	require.NoError(t, c.machine.Restart(t.Context(), controlplane.Kubelet))
	eventually(t, propagating, "all identities are renewed", func(ctx context.Context) error {
		var errs []error
		for i := range pods {
			request, err := c.issuedTo(ctx, pods[i].Namespace, pods[i].UID)
			if err == nil {
				err = isRenewedIdentity(request, since)
			}
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	})
	return fmt.Sprintf("identities of %d pods were renewed at once", len(pods))
}

// isRenewedIdentity returns nil if the request is newer, and the second generation of the CA for clients signed it.
func isRenewedIdentity(request *certificatesv1.PodCertificateRequest, since time.Time) error {
	chain, err := pki.ParseCertificates([]byte(request.Status.CertificateChain))
	if err == nil && (request.CreationTimestamp.Time.Before(since) || !strings.HasPrefix(chain[0].Issuer.CommonName, "servingcert client CA 2 ")) {
		err = fmt.Errorf("pod %s/%s: its last identity was requested at %s, and is signed by %q", request.Namespace, request.Spec.PodName, request.CreationTimestamp, chain[0].Issuer.CommonName)
	}
	return err
}

// refusesOtherCertificates fails the test if a server admits a client without a certificate, or with one of the CA for
// servers: here, that of the server itself.
func (c *cluster) refusesOtherCertificates(t *testing.T) {
	t.Helper()
	secret := &corev1.Secret{}
	require.NoError(t, c.admin.Get(t.Context(), client.ObjectKey{Namespace: identitiesServer.namespace, Name: "nginx-tls"}, secret))
	pair, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	require.NoError(t, err)
	for _, address := range c.guardedPorts(t) {
		assert.ErrorContains(t, c.callsAs(t, address, &tls.Certificate{}), "remote error: tls: certificate required", address)
		assert.ErrorContains(t, c.callsAs(t, address, &pair), "remote error: tls: bad certificate", address)
	}
}

// guardedPorts returns the address of the TLS port of each pod of the server.
func (c *cluster) guardedPorts(t *testing.T) (all []string) {
	t.Helper()
	pods, err := c.podsOf(t.Context(), identitiesServer)
	require.NoError(t, err)
	for i := range pods {
		proxy, ok := api.ProxyOf(&pods[i])
		require.True(t, ok)
		require.Len(t, proxy.Listeners, 1)
		s := identitiesServer
		s.port = int(proxy.Listeners[0].Port)
		all = append(all, s.atPod(&pods[i]).Address)
	}
	return all
}

// opens makes the server watch, which admits all in the same pods, and then removes its list, for new pods.
func (c *cluster) opens(t *testing.T) {
	t.Helper()
	c.lists(t, "watch, e2e-clients/"+listed)
	for _, address := range c.guardedPorts(t) {
		eventually(t, settling, address+" admits a client without a certificate", func(context.Context) error { return c.callsAs(t, address, &tls.Certificate{}) })
	}
	c.admits(t, stranger)
	c.changes(t, "annotate", api.AnnotationClients+"-")
	c.rollsOut(t, identitiesServer)
	c.admits(t, stranger)
}

// removesTLS removes the TLS port of the server, and the proxies.
func (c *cluster) removesTLS(t *testing.T) {
	t.Helper()
	c.changes(t, "annotate", api.AnnotationSecretName+"-")
	c.changes(t, "patch", "--type=json", `--patch=[{"op":"remove","path":"/spec/ports/0"}]`)
	c.rollsOut(t, identitiesServer)
	pods, err := c.podsOf(t.Context(), identitiesServer)
	require.NoError(t, err)
	for i := range pods {
		assert.Empty(t, pods[i].Spec.InitContainers, pods[i].Name)
	}
}

// changes changes the Service of the server with a command of kubectl.
func (c *cluster) changes(t *testing.T, command string, args ...string) {
	t.Helper()
	args = append([]string{command, "--namespace", identitiesServer.namespace, "service", identitiesServer.service}, args...)
	_, err := c.run(t.Context(), c.tools.kubectl, args...)
	require.NoError(t, err)
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
	c.annotate(t, identitiesServer, api.AnnotationClients, clients)
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
	took := time.Since(start)
	assert.Less(t, took, 30*time.Second, "docs/identities.md says within seconds; other scenes start meanwhile")
	s.note(fmt.Sprintf("a changed list was in force %s later, in the same pods", seconds(took)))
	assert.Equal(t, before, names())
}
