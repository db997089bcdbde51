package podcert

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
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// The request of a pod that was deleted gets nothing, though another pod has its name now.
func TestAPodThatWasMadeAgain(t *testing.T) {
	needsPodCertificates(t)
	startSigner(t)
	ns := newNamespace(t, true)
	named := func(p *corev1.Pod) { p.GenerateName, p.Name = "", "web-0" }
	former := newPod(t, ns, "web", named)
	old := ask(t, requestOf(t, former, newKey(t, pki.ECDSAP256)))
	saidOf(t, former, "NoService")
	now := int64(0)
	require.NoError(t, admin.CoreV1().Pods(ns).Delete(t.Context(), former.Name, metav1.DeleteOptions{GracePeriodSeconds: &now}))

	pod, k := newPod(t, ns, "web", named), newKey(t, pki.ECDSAP256)
	require.NotEqual(t, former.UID, pod.UID)
	newService(t, ns, "web", podKeys())
	issued(t, ask(t, requestOf(t, pod, k)), k)
	next := newKey(t, pki.ECDSAP256)
	issued(t, ask(t, requestOf(t, pod, next)), next)
	assert.Empty(t, conditionsOf(t, old))
}

// A certificate has the names that the Services have when it is signed, not those of the
// time when it was asked for.
func TestServicesChangeWhileARequestWaits(t *testing.T) {
	needsPodCertificates(t)
	ns := newNamespace(t, true)
	newService(t, ns, "web", podKeys())
	newService(t, ns, "gone", podKeys(), func(svc *corev1.Service) { svc.Spec.Selector["app"] = "web" })
	pod, k := newPod(t, ns, "web"), newKey(t, pki.ECDSAP256)
	request := ask(t, requestOf(t, pod, k))
	require.NoError(t, admin.CoreV1().Services(ns).Delete(t.Context(), "gone", metav1.DeleteOptions{}))
	selects(t, ns, "web", "other")

	startSigner(t)
	saidOf(t, pod, "NoService")
	assert.Empty(t, conditionsOf(t, request))
	selects(t, ns, "web", "web")
	assert.ElementsMatch(t, []string{"web." + ns + ".svc", "web." + ns + ".svc.cluster.local"}, issued(t, request, k).DNSNames)
}

// selects has a Service select app=APP.
func selects(t *testing.T, namespace, service, app string) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"spec":{"selector":{"app":%q}}}`, app)
	_, err := admin.CoreV1().Services(namespace).Patch(t.Context(), service, types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)
}

// A signer that is killed when it has signed, and has written nothing, leaves nothing
// behind: the next answers, once.
func TestTheSignerIsKilledBeforeItWrites(t *testing.T) {
	needsPodCertificates(t)
	ns := newNamespace(t, true)
	newService(t, ns, "web", podKeys())
	pod, k := newPod(t, ns, "web"), newKey(t, pki.ECDSAP256)
	kubeconfig, written := withoutAnswers(t)
	first := startSigner(t, "--kubeconfig="+kubeconfig)
	request := ask(t, requestOf(t, pod, k))
	select {
	case <-written:
	case <-t.Context().Done():
		t.Fatal("the signer answers nothing")
	}
	first.Kill()
	require.Empty(t, conditionsOf(t, request))

	startSigner(t)
	issued(t, request, k)
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
// without the feature gate, stops nothing else. What waits is answered once it serves them
// again.
func TestRequestsAreNoLongerServed(t *testing.T) {
	needsPodCertificates(t)
	var off atomic.Bool
	asked := make(chan struct{}, 100)
	kubeconfig, server := between(t, func(w http.ResponseWriter, r *http.Request) bool {
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
	newService(t, ns, "web", podKeys())
	pod, k := newPod(t, ns, "web"), newKey(t, pki.ECDSAP256)
	issued(t, ask(t, requestOf(t, pod, k)), k)

	off.Store(true)
	server.CloseClientConnections()
	select {
	case <-asked:
	case <-t.Context().Done():
		t.Fatal("the signer does not ask for PodCertificateRequests any more")
	}
	newService(t, ns, "secret", map[string]string{api.AnnotationSecretName: "secret-tls"})
	harness.Eventually(t, func() error {
		_, err := admin.CoreV1().Secrets(ns).Get(t.Context(), "secret-tls", metav1.GetOptions{})
		return err
	})
	request := ask(t, requestOf(t, pod, k))
	assert.Empty(t, conditionsOf(t, request))
	off.Store(false)
	issued(t, request, k)
}

// Two signers that take themselves for the leader answer each request once, and neither
// takes that for a fault.
func TestTwoSignersAtATime(t *testing.T) {
	needsPodCertificates(t)
	both := []*harness.Program{startSigner(t), startSigner(t)}
	ns := newNamespace(t, true)
	newService(t, ns, "web", podKeys())
	keys := map[*certificatesv1.PodCertificateRequest]key{}
	for range 30 {
		k := newKey(t, pki.ECDSAP256)
		keys[ask(t, requestOf(t, newPod(t, ns, "web"), k))] = k
	}
	for request, k := range keys {
		issued(t, request, k)
	}
	count := answers(t, ns, len(keys))
	for request := range keys {
		assert.Equal(t, 1, count[request.Name], "answers to %s", request.Name)
	}
	for _, p := range both {
		assert.NoError(t, p.Stop())
		for line := range strings.Lines(p.Log.String()) {
			if strings.Contains(line, ns) {
				assert.NotContains(t, line, "level=ERROR")
			}
		}
	}
}

// What waits when the API server goes away is answered when it is back.
func TestTheAPIServerIsAway(t *testing.T) {
	needsPodCertificates(t)
	startSigner(t)
	ns := newNamespace(t, true)
	pod, k := newPod(t, ns, "web"), newKey(t, pki.ECDSAP256)
	request := ask(t, requestOf(t, pod, k))
	saidOf(t, pod, "NoService")
	plane.StopAPIServer()
	require.NoError(t, plane.StartAPIServer(t.Context()))
	newService(t, ns, "web", podKeys())
	issued(t, request, k)
	next := newKey(t, pki.ECDSAP256)
	issued(t, ask(t, requestOf(t, pod, next)), next)
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
