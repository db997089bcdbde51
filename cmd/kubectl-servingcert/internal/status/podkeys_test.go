package status

import (
	"crypto/x509"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/test/rotatortest"
)

// podKeysService returns a Service whose pods have their own keys, with the rotator's condition.
func podKeysService(status metav1.ConditionStatus, reason string) *corev1.Service {
	svc := rotatortest.Asking("web", map[string]string{"app": "web"}, 8443)
	svc.Annotations[api.AnnotationKeySource] = string(api.KeySourcePod)
	ready := metav1.Condition{Type: api.ConditionReady, Status: metav1.ConditionTrue, Reason: api.ReasonPodKeys, Message: "each pod makes its key"}
	svc.Status.Conditions = state.Say(ready, state.Ready{Names: []string{"web.shop.svc"}, Kept: []string{"web-tls"}}).Both()
	if reason != "" {
		serving := metav1.Condition{Type: api.ConditionServing, Status: status, Reason: reason, Message: "said"}
		svc.Status.Conditions = append(svc.Status.Conditions, state.Say(serving, state.Serving{Ports: api.NeedsHash(svc)}).Both()...)
	}
	return svc
}

func TestServiceWithPodKeys(t *testing.T) {
	s, ok := ServiceOf(podKeysService(metav1.ConditionTrue, api.ServingCurrent))
	assert.True(t, ok)
	assert.Empty(t, s.Secret)
	assert.Equal(t, "(pod)", s.SecretColumn())
	assert.Equal(t, []pods.Key{pods.SecretKey("web-tls"), pods.PodKey}, s.Keys())
	assert.Equal(t, "True", s.Serving.Column())

	unseen := rotatortest.Service("web", "web-tls")
	unseen.Annotations[api.AnnotationKeySource] = string(api.KeySourcePod)
	s, ok = ServiceOf(unseen)
	assert.True(t, ok, "a request without a condition")
	assert.Equal(t, "(pod)", s.SecretColumn())
}

func TestVerifyPodKeys(t *testing.T) {
	for _, tt := range []struct {
		status  metav1.ConditionStatus
		reason  string
		verdict string
	}{
		{"", "", VerdictNotSeen},
		{metav1.ConditionTrue, api.ServingCurrent, VerdictOK},
		{metav1.ConditionFalse, api.ServingStale, VerdictFailed},
		{metav1.ConditionFalse, api.ServingForeign, VerdictFailed},
		{metav1.ConditionFalse, api.ServingPropagating, VerdictNotSeen},
		{metav1.ConditionUnknown, api.ServingUnreachable, VerdictNotSeen},
	} {
		s, _ := ServiceOf(podKeysService(tt.status, tt.reason))
		assert.Equal(t, VerdictOK, checkCondition(s).Verdict)
		findings := checkServing(VerifySituation{Service: s})
		require.Len(t, findings, 1)
		assert.Equal(t, tt.verdict, findings[0].Verdict, tt.reason)
	}
	assert.Empty(t, checkServing(VerifySituation{}))
	switched, _ := ServiceOf(podKeysService(metav1.ConditionTrue, api.ServingCurrent))
	switched.Serving.Leaf = "of a Secret"
	assert.Equal(t, VerdictNotSeen, checkServing(VerifySituation{Service: switched})[0].Verdict)
}

func TestVerifyPodWithItsOwnKey(t *testing.T) {
	now := rotatortest.Noon
	ca := rotatortest.NewCA(t, 1, now)
	s, _ := ServiceOf(podKeysService(metav1.ConditionTrue, api.ServingCurrent))
	leaf := ca.Issue(t, now, "web.shop.svc").Leaf
	k := VerifySituation{Host: "web.shop.svc", Service: s, Dialled: true, Address: "localhost:8443", Served: []*x509.Certificate{leaf}}
	bundle := pki.NewBundle(ca.Root)
	for _, f := range checkServed(k, bundle, now) {
		assert.Equal(t, VerdictOK, f.Verdict, f.Text)
	}
	assert.Contains(t, checkServed(k, bundle, now)[0].Text, " of the pod's own key, or of the earlier Secret web-tls, with a refresh due at ")
	k.Service.kept = nil
	assert.Contains(t, checkServed(k, bundle, now)[0].Text, " of the pod's own key, which its kubelet refreshes at ")
	late := pki.RefreshAt(leaf).Add(8 * time.Minute)
	findings := checkServed(k, bundle, late)
	assert.Equal(t, VerdictFailed, findings[0].Verdict)
	assert.Contains(t, findings[0].Text, "That time has passed: the server has not read its files again")
}

// withOwnKey returns a pod of a Deployment that has its own key.
func withOwnKey(workload string, onRotate api.OnRotate) Consumer {
	return Consumer{Namespace: "shop", Kind: "Deployment", Name: workload, Restartable: true, Keys: []pods.Key{pods.PodKey}, OnRotate: onRotate}
}

func TestDistrustNamesPodsWithOwnKeys(t *testing.T) {
	text := Consequences(DistrustSituation{Consumers: []Consumer{withOwnKey("web", api.OnRotateReload), withOwnKey("web", api.OnRotateReload), withOwnKey("api", api.OnRotateRestart)}})
	assert.Contains(t, text, "A kubelet cannot be asked to replace their certificates now: only a new pod gets a new key and certificate.\n")
	assert.Contains(t, text, "fail until their pods are replaced (kubectl rollout restart): 1: shop Deployment/web\n")
	assert.Contains(t, text, "that the rotator restarts (servingcert.dev/on-rotate: restart): 1: shop Deployment/api\n")
	assert.NotContains(t, Consequences(DistrustSituation{}), "their own keys")
	assert.Contains(t, Consequences(DistrustSituation{}), "  programs and hosts that use a CertificateSigningRequest, until they request a new certificate\n")
}

// A rotation ends before the certificates of pods' own keys are replaced.
func TestRotationLeavesPodKeys(t *testing.T) {
	own, _ := ServiceOf(podKeysService(metav1.ConditionTrue, api.ServingCurrent))
	unseen, idle := own, own
	unseen.Ready = ""
	idle.Serving = &Serving{Reason: api.ServingNoConsumers}
	for _, none := range [][]Service{nil, {unseen}, {idle}, {service("web", metav1.ConditionTrue, api.ServingCurrent, "")}} {
		assert.Empty(t, CountUptake(none, noon).PodKeysEnd(true))
	}
	u := CountUptake([]Service{own, service("web", metav1.ConditionTrue, api.ServingCurrent, "")}, noon)
	assert.True(t, u.Over(), "a refresh is not waited for")
	assert.Equal(t, 1, u.Services, "which is not a certificate in a Secret")
	const begin = "not replaced: certificates of pods with their own keys, of 1 Service (shop/web): "
	assert.Equal(t, begin+"each pod gets one from the new CA at its next refresh; until then, clients accept its current certificate; kubectl servingcert status -A shows what they serve\n", u.PodKeysEnd(false))
	assert.Contains(t, u.PodKeysEnd(true), begin+"clients no longer accept them, and only a new pod gets a new key and certificate; ")
	assert.Equal(t, "served: no pod mounts the certificate of a Secret\n", CountUptake([]Service{own}, noon).End())
}

func TestCannotRenew(t *testing.T) {
	s, _ := ServiceOf(podKeysService(metav1.ConditionTrue, api.ServingCurrent))
	assert.Contains(t, CannotRenew(s), "a kubelet cannot be asked to refresh a certificate: replace the pods, for example with kubectl rollout restart -n shop")
	for want, s := range map[string]Service{
		"Namespace shop is not labelled":             {Namespace: "shop", NotOptedIn: true},
		"To opt in: kubectl label namespace shop ":   {Namespace: "shop", Reason: api.ReasonNotOptedIn, PodKeys: true},
		"another issuer writes Secret shop/web-tls ": {Namespace: "shop", Secret: "web-tls", External: true, NotOptedIn: true},
	} {
		assert.False(t, s.Renewable())
		assert.Contains(t, CannotRenew(s), want)
	}
	assert.True(t, Service{Namespace: "shop", Secret: "web-tls"}.Renewable())
}
