package podcert

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// flood is how many requests a namespace makes, and few how many of them may be answered
// before that of another namespace: those that came before the signer knew of it.
const flood, few = 300, 60

// A namespace with many requests keeps neither another one's pod waiting nor a Secret. The
// order of the API server's list has its requests first.
func TestManyRequestsOfANamespaceDelayNobody(t *testing.T) {
	needsPodCertificates(t)
	busy, shop := newNamespaceCalled(t, "a-busy-"), newNamespaceCalled(t, "z-shop-")
	newService(t, busy, "web", podKeys())
	newService(t, shop, "web", podKeys())
	newService(t, shop, "secret", map[string]string{api.AnnotationSecretName: "secret-tls"})
	k := newKey(t, pki.ECDSAP256)
	first := newPod(t, busy, "web")
	template := requestOf(t, first, k)
	isKnown(t, template)
	askForMany(t, flood, first, template)
	pod := newPod(t, shop, "web")
	request := ask(t, requestOf(t, pod, k))

	startSigner(t, "--workers=1")
	issued(t, request, k)
	harness.Eventually(t, func() error {
		_, err := admin.CoreV1().Secrets(shop).Get(t.Context(), "secret-tls", metav1.GetOptions{})
		return err
	})
	harness.Eventually(t, func() error { return allIssued(t, busy, flood) })

	var before map[string]int // answers to the flood before what the other namespace gets
	var answers int
	harness.Eventually(t, func() error { // the API server writes them down after they were given
		events, err := plane.AuditEvents()
		require.NoError(t, err)
		before, answers = map[string]int{}, 0
		for _, e := range events {
			switch {
			case e.Object.Resource == "podcertificaterequests" && e.Object.Subresource == "status" && e.Object.Namespace == busy:
				answers++
			case e.Object.Namespace == shop && e.Object.Resource == "podcertificaterequests" && e.Object.Subresource == "status":
				before["pod"] = answers
			case e.Object.Namespace == shop && e.Object.Resource == "secrets" && e.Verb == "create":
				before["Secret"] = answers
			}
		}
		if answers < flood || len(before) < 2 {
			return fmt.Errorf("%d of %d answers, and %v", answers, flood, before)
		}
		return nil
	})
	assert.Equal(t, flood, answers)
	assert.Less(t, before["pod"], few)
	assert.Less(t, before["Secret"], few)
}

// One pod with more requests than it may have certificates keeps the rest waiting, with an
// event that names the limit. None is denied, and another pod is not affected.
func TestAPodThatAsksTooOftenWaits(t *testing.T) {
	needsPodCertificates(t)
	startSigner(t, "--secret-issue-burst=3", "--secret-issue-interval=1h")
	ns := newNamespace(t, true)
	newService(t, ns, "web", podKeys())
	pod, k := newPod(t, ns, "web"), newKey(t, pki.ECDSAP256)
	var requests []*certificatesv1.PodCertificateRequest
	for range 5 {
		requests = append(requests, ask(t, requestOf(t, pod, k)))
	}
	harness.Eventually(t, func() error { return allIssued(t, ns, 3) })
	note := saidOf(t, pod, "RateLimited")
	assert.Contains(t, note, "too many certificates were issued: the limit for one pod is reached (3 at once, then one every 1h0m0s); this request is answered at 20")

	other, k2 := newPod(t, ns, "web"), newKey(t, pki.ECDSAP256)
	issued(t, ask(t, requestOf(t, other, k2)), k2)
	answered := 0
	for _, request := range requests {
		for _, c := range conditionsOf(t, request) {
			assert.Equal(t, "Issued", c.Type)
			answered++
		}
	}
	assert.Equal(t, 3, answered)
}

// newNamespaceCalled makes an opted-in namespace whose name begins so.
func newNamespaceCalled(t *testing.T, prefix string) string {
	t.Helper()
	ns, err := admin.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: prefix, Labels: map[string]string{api.LabelInject: api.InjectEnabled}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	return ns.Name
}
