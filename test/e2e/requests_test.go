//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

const requestsNamespace = "e2e-requests"

// rotatingAfter is the least after which a certificate.Manager asks again for a certificate that is valid for ten
// minutes and has begun five minutes before: at 70 to 90 % of all that.
const rotatingAfter = 330 * time.Second

// requestsScene: programs that make their own keys. Their pods have the token that every pod
// has, and the webhook leaves them as they are.
func requestsScene() *scene {
	manager := server{namespace: requestsNamespace, service: "manager", port: 8443, podKeys: true}
	rotating := server{namespace: requestsNamespace, service: "rotating", port: 8443, podKeys: true}
	script := server{namespace: requestsNamespace, service: "script", port: 8443, podKeys: true}
	all := []server{manager, rotating, script}
	long := manager.name() + ".cluster.local"
	s := &scene{
		name: "requests", about: "keys made by programs: certificate.Manager, and openssl with kubectl", manifest: "requests.yaml",
		servers: all,
	}
	var started map[string]processes
	s.up = func(t *testing.T, c *cluster) {
		eventually(t, starting, requestsNamespace, func(ctx context.Context) error { return c.rolledOut(ctx, requestsNamespace, "") })
		c.fetchesNames(t, manager, manager.url("/"), "hello from a manager", manager.name())
		c.fetchesNames(t, rotating, rotating.url("/"), "hello from a manager", rotating.name())
		c.fetchesNames(t, script, script.url("/"), "hello from a script", script.name())
		started = map[string]processes{}
		for _, srv := range all {
			var err error
			started[srv.name()], err = c.processesOf(t.Context(), srv)
			require.NoError(t, err)
			_, err = c.requestsOf(t.Context(), srv)
			require.NoError(t, err)
		}
		c.noSecret(t, requestsNamespace)
		c.noKeyInEtcd(t, requestsNamespace)
	}
	s.renewed = func(t *testing.T, c *cluster, _ before) {
		c.asksFor(t, manager, "", manager.name(), long)
		c.fetchesNames(t, manager, "https://"+long+"/", "hello from a manager", manager.name(), long)
	}
	s.succeeded = func(t *testing.T, c *cluster) {
		c.asksFor(t, manager, manager.name(), manager.name(), long) // the names are the same
		for _, srv := range []server{manager, script} {
			eventually(t, propagating, srv.name()+" is served by the second generation", func(ctx context.Context) error {
				return errors.Join(c.lastIssuer(ctx, attentive, srv, "2"), c.lastIssuer(ctx, ofOld, srv, "2"))
			})
		}
	}
	s.alone = func(t *testing.T, c *cluster) {
		c.asksWithoutSigner(t, manager, long)
		s.note(c.rotatesInTime(t, rotating))
		for _, srv := range all {
			now, err := c.processesOf(t.Context(), srv)
			require.NoError(t, err)
			assert.Equal(t, started[srv.name()], now, "pods of %s, and how often they were restarted", srv.name())
		}
		s.note(c.noFailure(t))
	}
	return s
}

// fetchesNames fails the test unless a client gets the answer from the URL, with a
// certificate for exactly these names.
func (c *cluster) fetchesNames(t *testing.T, s server, url, body string, names ...string) {
	t.Helper()
	eventually(t, propagating, "fetch "+url, func(ctx context.Context) error {
		r, err := c.fetch(ctx, url)
		switch {
		case err != nil:
			return err
		case r.Body != body || !slices.Equal(r.Names, names):
			return fmt.Errorf("GET %s: status %d, %q, by a certificate for %q; want %q, %q", url, r.Status, r.Body, r.Names, body, names)
		}
		return c.says(ctx, s.namespace, s.service, api.ConditionReady, "True", api.ReasonPodKeys)
	})
}

// asksFor changes what the server's manager asks for.
func (c *cluster) asksFor(t *testing.T, s server, commonName string, dnsNames ...string) {
	t.Helper()
	body, err := json.Marshal(map[string]any{"commonName": commonName, "dnsNames": dnsNames})
	require.NoError(t, err)
	pods, err := c.podsOf(t.Context(), s)
	require.NoError(t, err)
	_, err = c.proxy(c.clients.CoreV1().RESTClient().Put(), s.namespace, pods[0].Name, 8080, "template").Body(body).DoRaw(t.Context())
	require.NoError(t, err)
}

// requestsOf returns the requests of the server's one pod, the oldest first. The API server
// says in them whose they are. It is an error if there are none.
func (c *cluster) requestsOf(ctx context.Context, s server) ([]certificatesv1.CertificateSigningRequest, error) {
	pods, err := c.podsOf(ctx, s)
	if err != nil {
		return nil, err
	}
	if len(pods) != 1 {
		return nil, fmt.Errorf("%s has %d pods; want 1", s.name(), len(pods))
	}
	list, err := c.clients.CertificatesV1().CertificateSigningRequests().List(ctx, metav1.ListOptions{FieldSelector: "spec.signerName=" + api.SignerName})
	if err != nil {
		return nil, err
	}
	requests := slices.DeleteFunc(list.Items, func(r certificatesv1.CertificateSigningRequest) bool {
		return !slices.Equal(r.Spec.Extra["authentication.kubernetes.io/pod-uid"], certificatesv1.ExtraValue{string(pods[0].UID)})
	})
	if len(requests) == 0 {
		return nil, fmt.Errorf("none of %d requests is of pod %s", len(list.Items), pods[0].Name)
	}
	slices.SortFunc(requests, func(a, b certificatesv1.CertificateSigningRequest) int {
		return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
	})
	return requests, nil
}

// asksWithoutSigner has the server's manager ask for another common name while there is no
// signer: it serves what it has, and the next certificate when the signer is back.
func (c *cluster) asksWithoutSigner(t *testing.T, s server, commonName string) {
	t.Helper()
	old, err := c.fetch(t.Context(), s.url("/"))
	require.NoError(t, err)
	asked, err := c.requestsOf(t.Context(), s)
	require.NoError(t, err)
	c.withoutSigner(t, func() {
		c.asksFor(t, s, commonName, s.name(), commonName)
		eventually(t, settling, "the manager asks", func(ctx context.Context) error {
			now, err := c.requestsOf(ctx, s)
			if err == nil && len(now) == len(asked) {
				err = fmt.Errorf("there are %d requests of it, as before", len(now))
			}
			return err
		})
		now, err := c.requestsOf(t.Context(), s)
		require.NoError(t, err)
		assert.Empty(t, now[len(now)-1].Status.Certificate)
		during, err := c.fetch(t.Context(), s.url("/"))
		require.NoError(t, err)
		assert.Equal(t, old.Leaf, during.Leaf)
	})
	eventually(t, settling, "the certificate that was asked for", func(ctx context.Context) error {
		now, err := c.fetch(ctx, s.url("/"))
		if err == nil && now.Leaf == old.Leaf {
			err = errors.New("the old one is served")
		}
		return err
	})
}

// rotatesInTime fails the test unless the server's manager asks for its second certificate
// when the first is due, and serves it. It returns what there is to say of it.
func (c *cluster) rotatesInTime(t *testing.T, s server) string {
	t.Helper()
	var requests []certificatesv1.CertificateSigningRequest
	eventually(t, 10*time.Minute, s.name()+" rotates", func(ctx context.Context) error {
		var err error
		if requests, err = c.requestsOf(ctx, s); err == nil && len(requests) < 2 {
			err = errors.New("it has asked once")
		}
		return err
	})
	took := requests[1].CreationTimestamp.Sub(requests[0].CreationTimestamp.Time)
	// The times of objects are in whole seconds.
	assert.GreaterOrEqual(t, took, rotatingAfter-time.Second, "from one request to the next")
	eventually(t, settling, "the second certificate", func(ctx context.Context) error {
		report, err := c.report(ctx, attentive)
		if err != nil {
			return err
		}
		if account, _ := report.Of(s.target()); len(account.Served) < 2 {
			return fmt.Errorf("%d certificates of it were seen", len(account.Served))
		}
		return nil
	})
	sum := c.shaken(t, s)
	require.Zero(t, sum.failed, strings.Join(sum.first, "\n"))
	return fmt.Sprintf("certificate.Manager with ten minutes: rotated after %s; %d handshakes with it, %d failed", seconds(took), sum.handshakes, sum.failed)
}
