package requests

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// calls counts what the signer asked the API server about requesters of a namespace: reviews of
// Services in it, and reads of pods.
func calls(t *testing.T, namespace string) (reviews, pods int) {
	t.Helper()
	events, err := plane.AuditEvents()
	require.NoError(t, err)
	for _, e := range events {
		switch {
		case e.Stage != "ResponseComplete":
		case e.Object.Resource == "subjectaccessreviews":
			reviews++ // no other test runs meanwhile
		case e.Object.Resource == "pods" && e.Object.Namespace == namespace:
			pods++
		}
	}
	return reviews, pods
}

// manyWaiting makes so many requests of a pod for eight Services each that are not there, and
// waits until the signer has looked at them all.
func manyWaiting(t *testing.T, n int) (namespace string) {
	t.Helper()
	ns := newNamespace(t, true)
	var names []string
	for i := range 8 {
		names = append(names, fmt.Sprintf("web-%d.%s.svc", i, ns))
	}
	pod, data := tokenOf(t, ns, newPod(t, ns, "web-1", "web")), pkcs10(t, newKey(t), names)
	for range n {
		saidOf(t, ask(t, pod, requestFor(data)), "NoService")
	}
	return ns
}

// answered waits until the signer has answered a request for a Service that is made now: it has
// then seen all Services that were changed before.
func answered(t *testing.T, as *kubernetes.Clientset, namespace, name string) {
	t.Helper()
	newService(t, namespace, name, func(svc *corev1.Service) { svc.Spec.Selector = map[string]string{"app": "elsewhere"} })
	key := newKey(t)
	issued(t, ask(t, as, requestFor(pkcs10(t, key, []string{name + "." + namespace + ".svc"}))), key)
}

// What changes in another namespace is no reason to look at requests again.
func TestChangesElsewhereAreNoReasonToLookAgain(t *testing.T) {
	startSigner(t)
	const n, changes = 30, 5
	elsewhere := newNamespace(t, true)
	newService(t, elsewhere, "busy")
	pod := tokenOf(t, elsewhere, newPod(t, elsewhere, "pod-1", "elsewhere"))
	others, _ := calls(t, elsewhere)
	ns := manyWaiting(t, n)
	reviews, pods := calls(t, ns)
	assert.GreaterOrEqual(t, reviews-others, 8*n, "they are looked at once")
	assert.GreaterOrEqual(t, pods, n)
	for i := range changes {
		selects(t, elsewhere, "busy", fmt.Sprint(i))
		answered(t, pod, elsewhere, fmt.Sprint("next-", i))
	}
	again, podsAgain := calls(t, ns)
	t.Logf("%d requests wait, %d changes elsewhere: %d reviews, %d reads of pods", n, changes, again-reviews, podsAgain-pods)
	assert.Zero(t, again-reviews)
	assert.Zero(t, podsAgain-pods)
}

// A request for names that do not say of which Service they are waits for whichever asks for them.
func TestARequestWaitsForAnExtraName(t *testing.T) {
	startSigner(t, "--permit-dns-suffix=shop-*=waiting.example.com")
	ns := newNamespace(t, false)
	extra := ns + ".waiting.example.com"
	h := host(t, ns, "web")
	o := ask(t, h, requestFor(pkcs10(t, newKey(t), []string{extra})))
	saidOf(t, o, "NoService")
	newService(t, ns, "web", func(svc *corev1.Service) { svc.Annotations[api.AnnotationExtraDNSNames] = extra })
	optIn(t, ns)
	harness.Eventually(t, func() error {
		o, err := admin.CertificatesV1().CertificateSigningRequests().Get(t.Context(), o.Name, metav1.GetOptions{})
		if err != nil || len(o.Status.Certificate) > 0 {
			return err
		}
		events, err := admin.EventsV1().Events(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range events.Items { // of a CA that was made before, which does not permit it yet
			if e := &events.Items[i]; e.Regarding.UID == o.UID && e.Reason == "WaitingForTrust" {
				return nil
			}
		}
		return fmt.Errorf("request %s was not looked at again", o.Name)
	})
}
