package requests

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

	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// kind is one of the two kinds of request, as the tests of both need it.
type kind struct {
	name   string
	newPod func(t *testing.T, namespace, name string) *corev1.Pod // with label app=web
	ask    func(t *testing.T, pod *corev1.Pod) made               // for Service web
}

// made is a request of a pod.
type made struct {
	issued func() // waits for the certificate, and checks it as a client would
	said   func(reason string) string
	waits  func() // asserts that it has no answer
	isGone func() // asserts what became of it if its pod is another now
}

// kinds are both, or the one that the API server serves.
func kinds(t *testing.T) []kind {
	t.Helper()
	all := []kind{{
		name:   "CertificateSigningRequest",
		newPod: func(t *testing.T, namespace, name string) *corev1.Pod { return newPod(t, namespace, name, "web") },
		ask: func(t *testing.T, pod *corev1.Pod) made {
			k := newKey(t)
			o := ask(t, tokenOf(t, pod.Namespace, pod), requestFor(pkcs10(t, k, []string{"web." + pod.Namespace + ".svc"})))
			return made{
				issued: func() { issued(t, o, k) },
				said:   func(reason string) string { return saidOf(t, o, reason) },
				waits: func() {
					now, err := admin.CertificatesV1().CertificateSigningRequests().Get(t.Context(), o.Name, metav1.GetOptions{})
					require.NoError(t, err)
					assert.Empty(t, now.Status.Conditions)
				},
				isGone: func() {
					_, condition := answerTo(t, o)
					assert.Equal(t, certificatesv1.CertificateDenied, condition.Type)
					assert.Equal(t, "PodGone", condition.Reason)
				},
			}
		},
	}}
	if !harness.Serves(t, plane.AdminConfig(), controlplane.PodCertificates) {
		return all
	}
	return append(all, kind{
		name: "PodCertificateRequest",
		newPod: func(t *testing.T, namespace, name string) *corev1.Pod {
			return runningPod(t, namespace, "web", func(p *corev1.Pod) { p.GenerateName, p.Name = "", name })
		},
		ask: func(t *testing.T, pod *corev1.Pod) made {
			k := newPodKey(t, pki.ECDSAP256)
			o := askForPod(t, requestOf(t, pod, k))
			waits := func() { assert.Empty(t, conditionsOf(t, o)) }
			return made{
				issued: func() { podIssued(t, o, k) },
				said:   func(reason string) string { return saidOfPod(t, pod, reason) },
				waits:  waits,
				isGone: waits,
			}
		},
	})
}

// What may become right waits, with an event, and is answered once it is.
func TestARequestWaitsForItsService(t *testing.T) {
	startSigner(t)
	for _, kind := range kinds(t) {
		t.Run(kind.name, func(t *testing.T) {
			byName := kind.name == "CertificateSigningRequest" // it says for which Service it is
			ns := newNamespace(t, !byName)
			pod := kind.newPod(t, ns, "web-1")
			request := kind.ask(t, pod)
			noService, service := "no Service that requests a certificate selects the pod", `Service "web"`
			if byName {
				assert.Contains(t, request.said("NamespaceNotOptedIn"), "does not have label servingcert.dev/inject=enabled")
				optIn(t, ns)
				noService, service = "no Service "+ns+"/web requests a certificate", "Service "+ns+"/web"
			}
			assert.Equal(t, noService, request.said("NoService"))
			newService(t, ns, "web", func(svc *corev1.Service) { svc.Annotations[api.AnnotationExtraDNSNames] = "www.example.com" })
			assert.Contains(t, request.said("InvalidAnnotation"), service+`: servingcert.dev/extra-dns-names: "www.example.com": not permitted`)

			patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:null}}}`, api.AnnotationExtraDNSNames)
			_, err := admin.CoreV1().Services(ns).Patch(t.Context(), "web", types.MergePatchType, patch, metav1.PatchOptions{})
			require.NoError(t, err)
			request.issued()
		})
	}
}

// A pod that was made again under its name does not get what the first one asked for.
func TestAPodThatWasMadeAgain(t *testing.T) {
	startSigner(t)
	for _, kind := range kinds(t) {
		t.Run(kind.name, func(t *testing.T) {
			ns := newNamespace(t, true)
			former := kind.newPod(t, ns, "web-0")
			old := kind.ask(t, former)
			old.said("NoService")
			now := int64(0)
			require.NoError(t, admin.CoreV1().Pods(ns).Delete(t.Context(), former.Name, metav1.DeleteOptions{GracePeriodSeconds: &now}))

			pod := kind.newPod(t, ns, "web-0")
			require.NotEqual(t, former.UID, pod.UID)
			newService(t, ns, "web")
			for range 2 {
				kind.ask(t, pod).issued()
			}
			old.isGone()
		})
	}
}

// Taking the label away takes nothing: who has a certificate gets the next one.
func TestANamespaceThatWasOptedInGoesOn(t *testing.T) {
	startSigner(t)
	for _, kind := range kinds(t) {
		t.Run(kind.name, func(t *testing.T) {
			ns := newNamespace(t, true)
			newService(t, ns, "web")
			pod, h, key := kind.newPod(t, ns, "web-1"), host(t, ns, "web"), newKey(t)
			kind.ask(t, pod).issued()
			ready := func(contains string) {
				harness.Eventually(t, func() error {
					svc, err := admin.CoreV1().Services(ns).Get(t.Context(), "web", metav1.GetOptions{})
					if err != nil {
						return err
					}
					if c := api.Condition(svc, api.ConditionReady); c == nil || c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, contains) {
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
			kind.ask(t, pod).issued()
			issued(t, ask(t, h, requestFor(pkcs10(t, key, []string{"web." + ns + ".svc"}))), key)
			newService(t, ns, "later", func(svc *corev1.Service) { svc.Spec.Selector = map[string]string{"app": "web"} })
			data := pkcs10(t, key, []string{"later." + ns + ".svc"})
			saidOf(t, ask(t, tokenOf(t, ns, pod), requestFor(data)), "NamespaceNotOptedIn")
		})
	}
}

// Two signers that take themselves for the leader give each request one answer, and neither
// takes that for a fault.
func TestTwoSignersAtATime(t *testing.T) {
	// What one signs and the other has answered already counts: at the limit, a request may wait a minute.
	both := []*harness.Program{startSigner(t, "--secret-issue-burst=0"), startSigner(t, "--secret-issue-burst=0")}
	ns := newNamespace(t, true)
	newService(t, ns, "web")
	const n = 15
	var requests []made
	for _, kind := range kinds(t) {
		for i := range n {
			pod := kind.newPod(t, ns, fmt.Sprint(strings.ToLower(kind.name), "-", i))
			requests = append(requests, kind.ask(t, pod))
		}
	}
	for _, request := range requests {
		request.issued()
	}
	if len(requests) > n {
		count := answers(t, ns, n)
		assert.Len(t, count, n)
		for name, times := range count {
			assert.Equal(t, 1, times, "answers to %s", name)
		}
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
