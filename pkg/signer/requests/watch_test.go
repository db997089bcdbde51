package requests

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/facts/queue"
	"github.com/servingcert/servingcert/pkg/signer/csr"
	"github.com/servingcert/servingcert/pkg/signer/ratelimit"
	"github.com/servingcert/servingcert/test/signertest"
)

// requestOf is what is kept of a request of a ServiceAccount in namespace shop, with these answers.
func requestOf(name string, answers ...certificatesv1.RequestConditionType) *csr.Facts {
	o := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: "uid", ResourceVersion: "7"},
		Spec:       certificatesv1.CertificateSigningRequestSpec{SignerName: api.SignerName, Username: "system:serviceaccount:shop:server"},
	}
	for _, answer := range answers {
		o.Status.Conditions = append(o.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{Type: answer})
	}
	return csr.FactsOf(o, api.DefaultLimits())
}

// A request waits in its tenant's turn. Its slot is released with it, although the Facts of an
// answered request have no tenant.
func TestRequestsThatComeAndGo(t *testing.T) {
	pending, answered := requestOf("csr-1"), requestOf("csr-1", certificatesv1.CertificateDenied)
	for name, after := range map[string]*csr.Facts{"answered": answered, "deleted": nil} {
		t.Run(name, func(t *testing.T) {
			used := ratelimit.New(ratelimit.DefaultRates())
			f := NewFollowed[*csr.Facts](Config{Pace: used, Clock: func() time.Time { return signertest.Epoch }}, nil, nil, nil)
			q := queue.New("", queue.Retries())
			defer q.ShutDown()

			f.changed(t.Context(), q, nil, pending)
			assert.Equal(t, 1, q.Len())
			next, _ := q.Get()
			assert.Equal(t, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "shop", Name: "csr-1"}}, next)

			share := ratelimit.ShareOfPod("uid", "shop", "pod")
			used.ReserveShare(share, signertest.Epoch)
			f.changed(t.Context(), q, pending, after)
			assert.Zero(t, used.Slot(share.Request))
			assert.Zero(t, q.Len())
		})
	}
}

// Only changes that can affect a request enqueue it.
func TestWhichChangesOfAServiceMatter(t *testing.T) {
	for name, c := range map[string]struct {
		change func(svc *corev1.Service)
		want   bool
	}{
		"nothing":       {func(*corev1.Service) {}, false},
		"the selector":  {func(svc *corev1.Service) { svc.Spec.Selector = map[string]string{"app": "other"} }, true},
		"an annotation": {func(svc *corev1.Service) { svc.Annotations[api.AnnotationDuration] = "1h" }, true},
		"the proof that it was opted in": {func(svc *corev1.Service) {
			svc.Status.Conditions = state.Say(metav1.Condition{Type: api.ConditionReady, Reason: api.ReasonPodKeys}, state.Ready{Proof: "x"}).Both()
		}, true},
		"another condition": {func(svc *corev1.Service) {
			svc.Status.Conditions = []metav1.Condition{{Type: api.ConditionServing, Reason: "Served"}}
		}, false},
	} {
		before := signertest.Service("web", api.AnnotationKeySource, "pod")
		after := before.DeepCopy()
		c.change(after)
		assert.Equal(t, c.want, matters(before, after), name)
	}
}

// Waiting requests are enqueued when a Service that requests a certificate is created or changes in
// a relevant field.
func TestRequestsWaitForServices(t *testing.T) {
	waiting := []*csr.Facts{requestOf("csr-1"), requestOf("csr-2", certificatesv1.CertificateDenied)}
	f := NewFollowed[*csr.Facts](Config{}, nil, nil, nil)
	handle := f.serviceHandler(func(svc *corev1.Service) []*csr.Facts {
		assert.Equal(t, "shop", svc.Namespace)
		return waiting
	})
	asks, other := signertest.Service("web", api.AnnotationKeySource, "pod"), signertest.Service("web", api.AnnotationKeySource, "pod")
	other.Spec.Selector = map[string]string{"app": "other"}
	silent := signertest.Service("web")
	silent.Annotations = nil
	for name, c := range map[string]struct {
		before, after *corev1.Service
		want          int
	}{
		"new, and asks":            {nil, asks, 1},
		"new, and asks nothing":    {nil, silent, 0},
		"nothing that matters":     {asks, asks.DeepCopy(), 0},
		"another selector":         {asks, other, 1},
		"deleted":                  {asks, nil, 0},
		"asks for nothing anymore": {asks, silent, 0},
	} {
		t.Run(name, func(t *testing.T) {
			q := queue.New("", queue.Retries())
			defer q.ShutDown()
			handle(t.Context(), q, c.before, c.after)
			assert.Zero(t, q.Len(), "the goroutine that watches does not look for them")
			for f.fanOut.Next() {
			}
			assert.Equal(t, c.want, q.Len())
		})
	}
}
