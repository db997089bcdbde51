package metrics

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// answer is what a scrape got.
type answer struct {
	status int
	body   string
	leaf   string // fingerprint of the server's
}

// transport makes a connection for each request. The server is verified by the bundle and by
// its name, unless the bundle is nil.
func (p *process) transport(bundle *x509.CertPool) *http.Transport {
	return &http.Transport{
		DisableKeepAlives: true, ForceAttemptHTTP2: true,
		TLSClientConfig: &tls.Config{RootCAs: bundle, ServerName: p.serverName(), InsecureSkipVerify: bundle == nil}, //nolint:gosec // said above
	}
}

// scrape gets the metrics over a connection of its own.
func (p *process) scrape(ctx context.Context, bundle *x509.CertPool, token string) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+p.metrics+"/metrics", http.NoBody)
	if err != nil {
		return answer{}, err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := p.transport(bundle).RoundTrip(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.ProtoMajor != 1 {
		return answer{}, fmt.Errorf("served over %s", response.Proto)
	}
	body, err := io.ReadAll(response.Body)
	return answer{response.StatusCode, string(body), pki.Fingerprint(response.TLS.PeerCertificates[0])}, err
}

// is200 returns an error if the answer is not 200.
func (a answer) is200() error {
	if a.status != http.StatusOK {
		return fmt.Errorf("HTTP %d: %s", a.status, a.body)
	}
	return nil
}

// account makes a ServiceAccount and returns a token of it.
func account(t *testing.T, name string) string {
	t.Helper()
	require.NoError(t, client.IgnoreAlreadyExists(admin.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}})))
	cfg, err := plane.ServiceAccountConfig(t.Context(), "default", name)
	require.NoError(t, err)
	return cfg.BearerToken
}

// bindReader lets the ServiceAccount read metrics, and returns once the API server knows.
func bindReader(t *testing.T, name string) {
	t.Helper()
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "metrics-"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "servingcert-metrics-reader"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: name}},
	}
	require.NoError(t, admin.Create(t.Context(), binding))
	t.Cleanup(func() {
		assert.NoError(t, harness.Remove(context.WithoutCancel(t.Context()), admin, binding))
	})
	harness.Eventually(t, func() error {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: "system:serviceaccount:default:" + name, NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: "/metrics", Verb: "get"},
		}}
		err := admin.Create(t.Context(), review)
		if err == nil && !review.Status.Allowed {
			err = errors.New("the binding is not in force")
		}
		return err
	})
}

// bundle returns what a Prometheus in servingcert's namespace verifies by.
func bundle(t *testing.T) *x509.CertPool {
	t.Helper()
	pool := x509.NewCertPool()
	harness.Eventually(t, func() error {
		var cm corev1.ConfigMap
		err := admin.Get(t.Context(), client.ObjectKey{Namespace: api.DefaultNamespace, Name: api.BundleName}, &cm)
		if err == nil && !pool.AppendCertsFromPEM([]byte(cm.Data["ca.crt"])) {
			err = errors.New("no certificates in the bundle")
		}
		return err
	})
	return pool
}

// isOK returns an error unless the page of the health server says 200.
func (p *process) isOK(ctx context.Context, page string) error {
	return controlplane.GetOK(ctx, http.DefaultClient, "http://"+p.Health()+page)
}

// A fresh installation: all start without a certificate. The signer issues its own
// beside the others.
func TestScrapes(t *testing.T) {
	nobody, reader := account(t, "nobody"), account(t, "prometheus")
	bindReader(t, "prometheus")
	all := make([]*process, len(names))
	for i, name := range names {
		all[i] = start(t, name)
	}
	for _, p := range all {
		page := "/readyz"
		if p.name == "webhook" {
			page = "/healthz" // it is not ready without the same certificate, which it needs to answer reviews
		}
		harness.Eventually(t, func() error { return p.isOK(t.Context(), page) })
		_, err := p.scrape(t.Context(), nil, reader)
		require.ErrorContains(t, err, "remote error: tls: internal error", "the %s has no certificate yet", p.name)
	}
	roots := bundle(t)
	for _, p := range all {
		harness.Eventually(t, func() error { return p.project(t.Context()) })
		harness.Eventually(t, func() error {
			_, err := p.scrape(t.Context(), roots, "")
			return err
		})
	}
	own := map[string]string{"signer": "servingcert_ca_signing_generation{ca=\"serving\"} 1\n", "trust": "servingcert_trust_source_valid 1\n", "rotator": "leader_election_master_status{name=\"servingcert-rotator\"} 1\n", "webhook": "servingcert_webhook_programs_valid 1\n"}
	for _, p := range all {
		t.Run(p.name, func(t *testing.T) {
			for token, want := range map[string]answer{
				"":           {status: http.StatusUnauthorized, body: "Unauthorized\n"},
				"nonsense":   {status: http.StatusInternalServerError, body: "Authentication failed\n"},
				nobody + "x": {status: http.StatusInternalServerError, body: "Authentication failed\n"}, // another signature
				nobody:       {status: http.StatusForbidden, body: "Authorization denied for user system:serviceaccount:default:nobody\n"},
			} {
				got, err := p.scrape(t.Context(), roots, token)
				require.NoError(t, err)
				assert.Equal(t, want.status, got.status)
				assert.Equal(t, want.body, got.body)
			}
			harness.Eventually(t, func() error {
				got, err := p.scrape(t.Context(), roots, reader)
				if err = errors.Join(err, got.is200()); err == nil && !strings.Contains(got.body, own[p.name]) {
					err = fmt.Errorf("no line %q", own[p.name])
				}
				return err
			})
			assert.NotContains(t, p.Log.String(), nobody)
			assert.NotContains(t, p.Log.String(), reader)
		})
	}
	t.Run("renewed", func(t *testing.T) {
		for _, p := range all {
			p.isRenewed(t, roots, reader)
		}
	})
}

// isRenewed asks for another certificate and waits until the same process serves it.
func (p *process) isRenewed(t *testing.T, roots *x509.CertPool, token string) {
	t.Helper()
	before, err := p.scrape(t.Context(), roots, token)
	require.NoError(t, err)
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: api.DefaultNamespace, Name: p.object()}}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, api.AnnotationRenewAfter, time.Now().Add(time.Second).UTC().Format(time.RFC3339))
	require.NoError(t, admin.Patch(t.Context(), svc, client.RawPatch("application/merge-patch+json", patch)))
	harness.Eventually(t, func() error {
		if err := p.project(t.Context()); err != nil {
			return err
		}
		after, err := p.scrape(t.Context(), roots, token)
		if err = errors.Join(err, after.is200()); err == nil && after.leaf == before.leaf {
			err = fmt.Errorf("the %s serves the same certificate as before", p.name)
		}
		return err
	})
	harness.Eventually(t, func() error { // the Secret is written before the condition
		if err := admin.Get(t.Context(), client.ObjectKeyFromObject(svc), svc); err != nil {
			return err
		}
		if leaf, _ := state.LeafOf(svc); leaf == before.leaf {
			return fmt.Errorf("condition Ready of Service %s still names the certificate before", svc.Name)
		}
		return nil
	})
	after, err := p.scrape(t.Context(), roots, token)
	require.NoError(t, err)
	leaf, ok := state.LeafOf(svc)
	require.True(t, ok)
	assert.Equal(t, leaf, after.leaf, "what condition Ready of Service %s names", svc.Name)
}

// Plain HTTP leaves the machine in no process.
func TestPlainHTTPIsForLoopback(t *testing.T) {
	for _, name := range []string{"signer", "rotator", "webhook"} {
		out, err := exec.CommandContext(t.Context(), filepath.Join(bin, name), "--metrics-insecure").CombinedOutput()
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit)
		assert.Equal(t, 2, exit.ExitCode())
		assert.Contains(t, string(out), name+`: --metrics-addr: ":8443": must have a loopback IP address with --metrics-insecure`)
	}
}
