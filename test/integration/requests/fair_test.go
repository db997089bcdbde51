package requests

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// flood is how many requests of each kind the pods of a namespace make, and few how many of
// them may be answered before that of another namespace: those that came before the signer
// knew of it.
const flood, few = 100, 40

// The pods of a namespace that make many requests delay neither the pod of another one nor a
// Secret. The order of the API server's lists has their requests first.
func TestManyRequestsOfANamespaceDelayNobody(t *testing.T) {
	needsPodCertificates(t)
	busy, shop := newNamespaceCalled(t, "a-busy-", true), newNamespaceCalled(t, "z-shop-", true)
	newService(t, busy, "web")
	newService(t, shop, "web")
	newService(t, shop, "secret", hasSecret("secret-tls"))
	k, key := newPodKey(t, pki.ECDSAP256), newKey(t)
	first := runningPod(t, busy, "web")
	template := requestOf(t, first, k)
	isKnown(t, template)
	data := pkcs10(t, key, []string{"web." + busy + ".svc"})
	for i, pod := range askForMany(t, flood, first, template) {
		ask(t, tokenOf(t, busy, pod), requestFor(data, named(fmt.Sprintf("%s-%d", busy, i))))
	}
	pod := runningPod(t, shop, "web")
	request := askForPod(t, requestOf(t, pod, k))
	o := ask(t, tokenOf(t, shop, pod), requestFor(pkcs10(t, key, []string{"web." + shop + ".svc"}), named(shop)))

	startSigner(t, "--workers=1")
	podIssued(t, request, k)
	issued(t, o, key)
	harness.Eventually(t, func() error {
		_, err := admin.CoreV1().Secrets(shop).Get(t.Context(), "secret-tls", metav1.GetOptions{})
		return err
	})
	harness.Eventually(t, func() error { return allIssued(t, busy, flood) })
	harness.Eventually(t, func() error {
		if n := len(signed(t, "system:serviceaccount:"+busy+":"+account)); n != flood {
			return fmt.Errorf("%d requests have a certificate, want %d", n, flood)
		}
		return nil
	})

	var answers, before map[string]int   // to the floods, by kind; and of them, before what the other namespace gets
	harness.Eventually(t, func() error { // the API server writes them down after they were given
		events, err := plane.AuditEvents()
		require.NoError(t, err)
		answers, before = map[string]int{}, map[string]int{}
		for _, e := range events {
			resource, answered := e.Object.Resource, e.Object.Subresource == "status"
			switch {
			case answered && (e.Object.Namespace == busy || strings.HasPrefix(e.Object.Name, busy)):
				answers[resource]++
			case answered && (e.Object.Namespace == shop && resource == "podcertificaterequests" || e.Object.Name == o.Name):
				before[resource] = answers[resource]
			case e.Object.Namespace == shop && resource == "secrets" && e.Verb == "create":
				before["secrets"] = answers["podcertificaterequests"]
			}
		}
		if answers["podcertificaterequests"] < flood || answers["certificatesigningrequests"] < flood || len(before) < 3 {
			return fmt.Errorf("%v of %d answers each, and %v", answers, flood, before)
		}
		return nil
	})
	t.Logf("of %d answers, before those of another namespace: %v", flood, before)
	assert.Equal(t, flood, answers["podcertificaterequests"])
	assert.Equal(t, flood, answers["certificatesigningrequests"])
	for what, n := range before {
		assert.Less(t, n, few, what)
	}
}

// named names a request: they are listed by their names.
func named(name string) func(*certificatesv1.CertificateSigningRequest) {
	return func(o *certificatesv1.CertificateSigningRequest) { o.GenerateName, o.Name = "", name }
}

// What a pod asks for too often waits, with an event that names the limit. It is neither approved nor
// denied, and another pod is not affected.
func TestAPodThatAsksTooOftenWaits(t *testing.T) {
	startSigner(t, "--secret-issue-burst=2", "--secret-issue-interval=1h")
	for _, kind := range kinds(t) {
		t.Run(kind.name, func(t *testing.T) {
			ns := newNamespace(t, true)
			newService(t, ns, "web")
			pod := kind.newPod(t, ns, "web-1")
			for range 2 {
				kind.ask(t, pod).issued()
			}
			third := kind.ask(t, pod)
			assert.Contains(t, third.said("RateLimited"), "too many certificates were issued: the limit for one pod is reached "+
				"(2 at once, then one every 1h0m0s); this request is answered at 20")
			third.waits()
			kind.ask(t, kind.newPod(t, ns, "web-2")).issued()
		})
	}
}

// signed are the requests of a user that have a certificate.
func signed(t *testing.T, user string) (names []string) {
	t.Helper()
	list, err := admin.CertificatesV1().CertificateSigningRequests().List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	for i := range list.Items {
		if o := &list.Items[i]; o.Spec.Username == user && len(o.Status.Certificate) > 0 {
			names = append(names, o.Name)
		}
	}
	return names
}
