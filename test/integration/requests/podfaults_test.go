package requests

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// A signer that is killed when it has signed, and has written nothing, leaves nothing
// behind: the next answers, once.
func TestTheSignerIsKilledBeforeItWrites(t *testing.T) {
	needsPodCertificates(t)
	ns := newNamespace(t, true)
	newService(t, ns, "web")
	pod, k := runningPod(t, ns, "web"), newPodKey(t, pki.ECDSAP256)
	kubeconfig, written := withoutAnswers(t)
	first := startSigner(t, "--kubeconfig="+kubeconfig)
	request := askForPod(t, requestOf(t, pod, k))
	select {
	case <-written:
	case <-t.Context().Done():
		t.Fatal("the signer answers nothing")
	}
	first.Kill()
	require.Empty(t, conditionsOf(t, request))

	startSigner(t)
	podIssued(t, request, k)
	assert.Equal(t, 1, answers(t, ns, 1)[request.Name])
}

// withoutAnswers returns a kubeconfig of the signer whose answers to requests do not
// reach the API server, and wait instead until the signer is gone. The channel gets
// something for each.
func withoutAnswers(t *testing.T) (kubeconfig string, written <-chan struct{}) {
	t.Helper()
	arrived := make(chan struct{}, 100)
	kubeconfig, _ = between(t, func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPatch || !strings.Contains(r.URL.Path, "/podcertificaterequests/") {
			return false
		}
		_, _ = io.Copy(io.Discard, r.Body) // only then is the end of the connection seen
		arrived <- struct{}{}
		<-r.Context().Done()
		return true
	})
	return kubeconfig, arrived
}

// between returns a kubeconfig of the signer that leads through a server, which passes on to
// the API server what answers does not answer itself.
func between(t *testing.T, answers func(w http.ResponseWriter, r *http.Request) bool) (kubeconfig string, server *httptest.Server) {
	t.Helper()
	account, err := plane.ServiceAccountConfig(t.Context(), api.DefaultNamespace, signerAccount)
	require.NoError(t, err)
	target, err := url.Parse(plane.Host())
	require.NoError(t, err)
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.Transport, err = rest.TransportFor(account)
	require.NoError(t, err)
	proxy.FlushInterval = -1 // watches
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !answers(w, r) {
			proxy.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, controlplane.WriteKubeconfig(kubeconfig, &rest.Config{Host: server.URL}))
	return kubeconfig, server
}

// An API server that no longer serves PodCertificateRequests, as one that was started again
// without the feature gate, stops nothing else; nor does one that has no answer about
// CertificateSigningRequests. What waits is answered once it serves them again.
func TestRequestsAreNoLongerServed(t *testing.T) {
	needsPodCertificates(t)
	var off atomic.Bool
	asked := make(chan struct{}, 100)
	kubeconfig, server := between(t, func(w http.ResponseWriter, r *http.Request) bool {
		if off.Load() && strings.Contains(r.URL.Path, "/certificatesigningrequests") {
			w.WriteHeader(http.StatusBadGateway)
			return true
		}
		if !off.Load() || !strings.Contains(r.URL.Path, "/podcertificaterequests") {
			return false
		}
		select {
		case asked <- struct{}{}:
		default:
		}
		http.NotFound(w, r)
		return true
	})
	startSigner(t, "--kubeconfig="+kubeconfig)
	ns := newNamespace(t, true)
	newService(t, ns, "web")
	pod, k := runningPod(t, ns, "web"), newPodKey(t, pki.ECDSAP256)
	podIssued(t, askForPod(t, requestOf(t, pod, k)), k)
	h, key := host(t, ns, "later"), newKey(t)
	data := pkcs10(t, key, []string{"later." + ns + ".svc"})
	waits := ask(t, h, requestFor(data))
	saidOf(t, waits, "NoService")

	off.Store(true)
	server.CloseClientConnections()
	select {
	case <-asked:
	case <-t.Context().Done():
		t.Fatal("the signer does not ask for PodCertificateRequests any more")
	}
	newService(t, ns, "secret", hasSecret("secret-tls"))
	harness.Eventually(t, func() error {
		_, err := admin.CoreV1().Secrets(ns).Get(t.Context(), "secret-tls", metav1.GetOptions{})
		return err
	})
	request := askForPod(t, requestOf(t, pod, k))
	assert.Empty(t, conditionsOf(t, request))
	off.Store(false)
	podIssued(t, request, k)
	newService(t, ns, "later")
	issued(t, waits, key)
	issued(t, ask(t, h, requestFor(data)), key)
}

// conditionsOf are those of a request as it is now.
func conditionsOf(t *testing.T, request *certificatesv1.PodCertificateRequest) []metav1.Condition {
	t.Helper()
	now, err := certificates.PodCertificateRequests(request.Namespace).Get(t.Context(), request.Name, metav1.GetOptions{})
	require.NoError(t, err)
	return now.Status.Conditions
}

// answers are how often each request of the namespace was answered, by its name, as the
// API server wrote it down: after the answer, so it waits until there are answers to n.
func answers(t *testing.T, namespace string, n int) (count map[string]int) {
	t.Helper()
	harness.Eventually(t, func() error {
		events, err := plane.AuditEvents()
		require.NoError(t, err)
		count = map[string]int{}
		for _, e := range events {
			answer := e.Object.Resource == "podcertificaterequests" && e.Object.Subresource == "status" && e.Object.Namespace == namespace
			if answer && e.Status.Code == http.StatusOK {
				count[e.Object.Name]++
			}
		}
		if len(count) < n {
			return fmt.Errorf("answers to %d of %d requests were written down", len(count), n)
		}
		return nil
	})
	return count
}
