package requests

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/integration/harness"
)

const pods = 150

// All pods that start at once get a certificate, for one read of the pod and one write of
// the request each, and nothing else.
func TestManyPodsStartAtOnce(t *testing.T) {
	needsPodCertificates(t)
	// What other tests left to wait would be looked at beside what is counted.
	require.NoError(t, admin.CertificatesV1().CertificateSigningRequests().DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
	startSigner(t)
	ns := newNamespace(t, true)
	newService(t, ns, "web")
	first, k := runningPod(t, ns, "web"), newPodKey(t, pki.ECDSAP256)
	template := requestOf(t, first, k)
	podIssued(t, askForPod(t, template), k)
	harness.Eventually(t, func() error { return isReady(t, ns, "web") })
	before := requests(t, ns, map[string]int{"patch services/status": 1, "patch podcertificaterequests/status": 1})

	askForMany(t, pods, first, template)
	harness.Eventually(t, func() error { return allIssued(t, ns, pods+1) })

	after := requests(t, ns, map[string]int{"get pods": pods + 1, "patch podcertificaterequests/status": pods + 1})
	for what := range before {
		if after[what] -= before[what]; after[what] == 0 {
			delete(after, what)
		}
	}
	assert.Equal(t, map[string]int{"get pods": pods, "patch podcertificaterequests/status": pods}, after)
}

// askForMany makes n pods like the first one, and a request like the template for each, as
// their kubelet would. It returns the pods.
func askForMany(t *testing.T, n int, first *corev1.Pod, template *certificatesv1.PodCertificateRequest) []*corev1.Pod {
	t.Helper()
	ns, all := first.Namespace, make([]*corev1.Pod, n)
	inParallel(t, n, func(i int) (err error) {
		all[i], err = admin.CoreV1().Pods(ns).Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "web-", Labels: first.Labels},
			Spec:       podSpec(),
		}, metav1.CreateOptions{})
		return err
	})
	// The API server's cache has the pods in their order: with the last it has all.
	last := template.DeepCopy()
	pod := runningPod(t, ns, "web")
	last.Spec.PodName, last.Spec.PodUID = pod.Name, pod.UID
	isKnown(t, last)
	inParallel(t, n, func(i int) error {
		request := template.DeepCopy()
		request.Spec.PodName, request.Spec.PodUID = all[i].Name, all[i].UID
		_, err := nodeCertificates.PodCertificateRequests(ns).Create(t.Context(), request, metav1.CreateOptions{})
		return err
	})
	return all
}

// inParallel does something n times.
func inParallel(t *testing.T, n int, do func(i int) error) {
	t.Helper()
	var group errgroup.Group
	group.SetLimit(50)
	for i := range n {
		group.Go(func() error { return do(i) })
	}
	require.NoError(t, group.Wait())
}

// isReady is nil if the Service has its condition: the signer writes it no more.
func isReady(t *testing.T, namespace, name string) error {
	t.Helper()
	svc, err := admin.CoreV1().Services(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if ready := api.Condition(svc, api.ConditionReady); ready == nil || ready.Status != metav1.ConditionTrue {
		return fmt.Errorf("condition Ready is %v", ready)
	}
	return nil
}

// allIssued is nil if so many requests of the namespace have a certificate.
func allIssued(t *testing.T, namespace string, want int) error {
	t.Helper()
	list, err := certificates.PodCertificateRequests(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		return err
	}
	n := 0
	for i := range list.Items {
		for _, c := range list.Items[i].Status.Conditions {
			if c.Type == certificatesv1.PodCertificateRequestConditionTypeIssued {
				n++
			}
		}
	}
	if n != want {
		return fmt.Errorf("%d requests have a certificate, want %d", n, want)
	}
	return nil
}

// requests counts what the signer has asked of the API server about the namespace, and
// about all namespaces at once, by verb and resource. A watch is no reading. It waits until
// there are those of which least says how many can be seen to be done: the API server writes a
// request down after it was done.
func requests(t *testing.T, namespace string, least map[string]int) (count map[string]int) {
	t.Helper()
	harness.Eventually(t, func() error {
		count = writtenDown(t, namespace)
		for what, n := range least {
			if count[what] < n {
				return fmt.Errorf("%d of %d %s were written down", count[what], n, what)
			}
		}
		return nil
	})
	return count
}

func writtenDown(t *testing.T, namespace string) map[string]int {
	t.Helper()
	events, err := plane.AuditEvents()
	require.NoError(t, err)
	count := map[string]int{}
	for _, e := range events {
		if e.Verb == "watch" || (e.Object.Namespace != namespace && e.Object.Namespace != "") {
			continue
		}
		what := e.Verb + " " + e.Object.Resource
		if e.Object.Subresource != "" {
			what += "/" + e.Object.Subresource
		}
		count[what]++
	}
	return count
}
