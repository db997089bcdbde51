package csr

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// flood is how many requests the pods of a namespace make, and few how many of them may be
// answered before that of another namespace.
const flood, few = 200, 60

// The pods of a namespace that make many requests do not delay the pod of another one. The
// order of the API server's list has their requests first.
func TestManyRequestsOfANamespaceDelayNobody(t *testing.T) {
	busy, shop := newNamespace(t, true), newNamespace(t, true)
	newService(t, busy, "web")
	newService(t, shop, "web")
	key := newKey(t)
	named := func(name string) func(*certificatesv1.CertificateSigningRequest) {
		return func(o *certificatesv1.CertificateSigningRequest) { o.GenerateName, o.Name = "", name }
	}
	data := pkcs10(t, key, []string{"web." + busy + ".svc"})
	for i := range flood {
		ask(t, tokenOf(t, busy, newPod(t, busy, fmt.Sprint("web-", i), "web")), requestFor(data, named(fmt.Sprintf("a-%s-%d", busy, i))))
	}
	pod := newPod(t, shop, "web-1", "web")
	o := ask(t, tokenOf(t, shop, pod), requestFor(pkcs10(t, key, []string{"web." + shop + ".svc"}), named("z-"+shop)))

	startSigner(t, "--workers=1")
	issued(t, o, key)
	harness.Eventually(t, func() error {
		if n := len(signed(t, "system:serviceaccount:"+busy+":"+account)); n != flood {
			return fmt.Errorf("%d requests have a certificate, want %d", n, flood)
		}
		return nil
	})

	var answers, before int
	harness.Eventually(t, func() error { // the API server writes them down after they were given
		events, err := plane.AuditEvents()
		require.NoError(t, err)
		answers, before = 0, -1
		for _, e := range events {
			switch {
			case e.Object.Resource != "certificatesigningrequests" || e.Object.Subresource != "status":
			case e.Object.Name == o.Name:
				before = answers
			case strings.HasPrefix(e.Object.Name, "a-"+busy):
				answers++
			}
		}
		if answers < flood || before < 0 {
			return fmt.Errorf("%d of %d answers, the other's after %d", answers, flood, before)
		}
		return nil
	})
	assert.Equal(t, flood, answers)
	assert.Less(t, before, few)
}

// What a pod, or a host for the same names, asks for too often waits, with an event that
// names the limit. It is neither approved nor denied.
func TestWhoAsksTooOftenWaits(t *testing.T) {
	startSigner(t, "--secret-issue-burst=2", "--secret-issue-interval=1h")
	ns := newNamespace(t, true)
	newService(t, ns, "web")
	key := newKey(t)
	short, long := pkcs10(t, key, []string{"web." + ns + ".svc"}), pkcs10(t, key, []string{"web." + ns + ".svc.cluster.local"})
	waits := func(as kubernetes.Interface, what string) {
		t.Helper()
		issued(t, ask(t, as, requestFor(short)), key)
		issued(t, ask(t, as, requestFor(short)), key)
		third := ask(t, as, requestFor(short))
		assert.Contains(t, saidOf(t, third, "RateLimited"), "the limit for one "+what+" is reached (2 at once, then one every 1h0m0s); this request is answered at 20")
		third, err := admin.CertificatesV1().CertificateSigningRequests().Get(t.Context(), third.Name, metav1.GetOptions{})
		require.NoError(t, err)
		assert.Empty(t, third.Status.Conditions)
	}
	waits(tokenOf(t, ns, newPod(t, ns, "web-1", "web")), "pod")
	h := host(t, ns, "web")
	waits(h, "requester with these names")
	issued(t, ask(t, h, requestFor(long)), key)
	issued(t, ask(t, tokenOf(t, ns, newPod(t, ns, "web-2", "web")), requestFor(short)), key)
}

// Taking the label away takes nothing: who has a certificate gets the next one.
func TestANamespaceThatWasOptedInGoesOn(t *testing.T) {
	startSigner(t)
	ns := newNamespace(t, true)
	newService(t, ns, "web")
	pod, h, key := tokenOf(t, ns, newPod(t, ns, "web-1", "web")), host(t, ns, "web"), newKey(t)
	data := pkcs10(t, key, []string{"web." + ns + ".svc"})
	issued(t, ask(t, pod, requestFor(data)), key)
	ready := func(contains string) {
		harness.Eventually(t, func() error {
			svc, err := admin.CoreV1().Services(ns).Get(t.Context(), "web", metav1.GetOptions{})
			if err != nil {
				return err
			}
			if c := api.Condition(svc, api.ConditionReady); c == nil || !strings.Contains(c.Message, contains) {
				return fmt.Errorf("condition Ready is %v", c)
			}
			return nil
		})
	}
	ready("each pod makes its key")
	unlabel := fmt.Appendf(nil, `{"metadata":{"labels":{%q:null}}}`, api.LabelInject)
	_, err := admin.CoreV1().Namespaces().Patch(t.Context(), ns, types.MergePatchType, unlabel, metav1.PatchOptions{})
	require.NoError(t, err)
	ready("no longer has label")
	issued(t, ask(t, pod, requestFor(data)), key)
	issued(t, ask(t, h, requestFor(data)), key)
	newService(t, ns, "later", func(svc *corev1.Service) { svc.Spec.Selector = map[string]string{"app": "web"} })
	saidOf(t, ask(t, pod, requestFor(pkcs10(t, key, []string{"later." + ns + ".svc"}))), "NamespaceNotOptedIn")
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
