package requests

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fcache "k8s.io/client-go/tools/cache/testing"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/facts"
	"github.com/servingcert/servingcert/pkg/facts/queue"
	"github.com/servingcert/servingcert/pkg/signer/csr"
	"github.com/servingcert/servingcert/pkg/signer/ratelimit"
	"github.com/servingcert/servingcert/test/signertest"
)

// requestOf is what is kept of a request of a ServiceAccount in namespace shop, with these answers.
func requestOf(name string, answers ...certificatesv1.RequestConditionType) *csr.Facts {
	return factsOf(objectOf(name, answers...))
}

func factsOf(o *certificatesv1.CertificateSigningRequest) *csr.Facts {
	return csr.FactsOf(o, api.DefaultLimits())
}

func objectOf(name string, answers ...certificatesv1.RequestConditionType) *certificatesv1.CertificateSigningRequest {
	o := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: "uid", ResourceVersion: "7"},
		Spec:       certificatesv1.CertificateSigningRequestSpec{SignerName: api.SignerName, Username: "system:serviceaccount:shop:server"},
	}
	for _, answer := range answers {
		o.Status.Conditions = append(o.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{Type: answer})
	}
	return o
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

// A request may be answered or deleted while it is decided, and its event come before what the decision
// remembers of it: that is released too.
func TestARequestThatGoesWhileItIsDecided(t *testing.T) {
	again := objectOf("csr-1")
	again.UID = "another"
	for name, c := range map[string]struct {
		change func(*fcache.FakeControllerSource)
		stays  bool
	}{
		"deleted":    {func(s *fcache.FakeControllerSource) { s.Delete(objectOf("csr-1")) }, false},
		"answered":   {func(s *fcache.FakeControllerSource) { s.Modify(objectOf("csr-1", certificatesv1.CertificateDenied)) }, false},
		"made again": {func(s *fcache.FakeControllerSource) { s.Modify(again) }, false},
		"touched":    {func(s *fcache.FakeControllerSource) { s.Modify(objectOf("csr-1")) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			source := fcache.NewFakeControllerSource()
			source.Add(objectOf("csr-1"))
			informer, err := facts.NewInformerOf(source, facts.Options[*certificatesv1.CertificateSigningRequest, *csr.Facts]{
				Example: &certificatesv1.CertificateSigningRequest{}, Derive: factsOf,
			})
			require.NoError(t, err)
			used := ratelimit.New(ratelimit.DefaultRates())
			f := NewFollowed(Config{Pace: used, Clock: func() time.Time { return signertest.Epoch }}, informer, events.NewFakeRecorder(1), nil)
			q := queue.New("", queue.Retries())
			defer q.ShutDown()
			there, changed := make(chan bool, 1), make(chan bool, 1)
			informer.Handle(func(before, after *csr.Facts) {
				f.changed(t.Context(), q, before, after)
				if before == nil {
					there <- true
				} else {
					changed <- true
				}
			})
			ended := make(chan error)
			go func() { ended <- informer.Start(t.Context()) }()
			t.Cleanup(func() { assert.NoError(t, <-ended) })
			<-there

			share := ratelimit.ShareOfPod("uid", "shop", "pod")
			_, err = f.Decide(types.NamespacedName{Name: "csr-1"}, func(r *csr.Facts) (reconcile.Result, error) {
				c.change(source)
				<-changed
				used.ReserveShare(share, signertest.Epoch)
				for range 10 {
					f.Waits(r, 1, objectOf("csr-1"), "NoService", "no Service selects the pod")
				}
				return reconcile.Result{}, nil
			})
			require.NoError(t, err)
			_, said := f.last.Load(types.UID("uid"))
			assert.Equal(t, c.stays, said, "the last event")
			assert.Equal(t, c.stays, f.Waiting()["NoService"] == 1, "the metric")
			assert.Equal(t, c.stays, f.looks.At("shop", "uid", signertest.Epoch).After(signertest.Epoch), "how often it was decided")
			assert.Equal(t, c.stays, used.Slot(share.Request) != ratelimit.Slot{}, "its turn")
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
