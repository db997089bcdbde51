package controller

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/facts"
	"github.com/servingcert/servingcert/pkg/limit"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer/podcert"
	"github.com/servingcert/servingcert/pkg/signer/ratelimit"
	"github.com/servingcert/servingcert/pkg/signer/requests"
	"github.com/servingcert/servingcert/test/signertest"
)

// oneService is a cache with one Service.
type oneService struct{ svc *corev1.Service }

func (s oneService) Get(key types.NamespacedName) *corev1.Service {
	if key != client.ObjectKeyFromObject(s.svc) {
		return nil
	}
	return s.svc
}

func (s oneService) In(string) iter.Seq[*corev1.Service] {
	return slices.Values([]*corev1.Service{s.svc})
}
func (s oneService) Handle(h func(before, after *corev1.Service))                        { h(nil, s.svc) }
func (s oneService) Changes(string, facts.Handler[*corev1.Service]) source.SyncingSource { return nil }

// pod is the one of the request, changed.
func pod(change func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", UID: "pod", Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{NodeName: "node-1", ServiceAccountName: "default"},
	}
	change(p)
	return p
}

func elsewhere(p *corev1.Pod) { p.Spec.NodeName = "node-2" }

// TestAnOldPodRefusesNothing: the pod is read from the API server's cache, which may not have it
// yet, or have old labels. It is read again before a request is refused, waits or is ignored.
func TestAnOldPodRefusesNothing(t *testing.T) {
	same := func(*corev1.Pod) {}
	of := func(app string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Labels["app"] = app } }
	another := func(p *corev1.Pod) { p.UID = "before" }
	for name, c := range map[string]struct {
		cached, live *corev1.Pod
		verdict      podcert.Verdict
		reads        []string // by the resource version that is asked for
	}{
		"as it is":              {pod(same), pod(same), podcert.Sign, []string{"0"}},
		"not yet in the cache":  {nil, pod(same), podcert.Sign, []string{"0", ""}},
		"the one before":        {pod(another), pod(same), podcert.Sign, []string{"0", ""}},
		"labelled a moment ago": {pod(of("db")), pod(same), podcert.Sign, []string{"0", ""}},
		"bound a moment ago":    {pod(elsewhere), pod(same), podcert.Sign, []string{"0", ""}},
		"of another node":       {pod(elsewhere), pod(elsewhere), podcert.Deny, []string{"0", ""}},
		"of no Service":         {pod(of("db")), pod(of("db")), podcert.Wait, []string{"0", ""}},
		"gone":                  {pod(another), nil, podcert.Ignore, []string{"0", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			var reads []string
			live := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
				Get: func(ctx context.Context, w client.WithWatch, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
					var options client.GetOptions
					options.ApplyOptions(opts)
					version, found := options.AsGetOptions().ResourceVersion, c.live
					if reads = append(reads, version); version == "0" {
						found = c.cached
					}
					if found == nil {
						return w.Get(ctx, key, into, opts...) // has none
					}
					found.DeepCopyInto(into.(*corev1.Pod))
					return nil
				},
			})
			_, d, err := controllerWith(t, live).decide(t.Context(), request(t))
			require.NoError(t, err)
			assert.Equal(t, c.verdict, d.Verdict, d.Message)
			assert.Equal(t, c.reads, reads)
		})
	}
}

// What would be signed waits for the limits of its pod and of its namespace. What is denied does not.
func TestRequestsWaitForTheLimits(t *testing.T) {
	ofPod := ratelimit.Rates{Secret: limit.Limit{Burst: 2, Interval: time.Hour}, Namespace: limit.Limit{Burst: 1000, Interval: time.Second}}
	ofNamespace := ratelimit.Rates{Secret: limit.Limit{Burst: 20, Interval: time.Minute}, Namespace: limit.Limit{Burst: 1, Interval: time.Minute}}
	for name, c := range map[string]struct {
		rates   ratelimit.Rates
		before  int // earlier requests of the pod
		change  func(*corev1.Pod)
		verdict podcert.Verdict
		reason  string
		again   time.Duration
	}{
		"it has its turn":        {ofPod, 1, func(*corev1.Pod) {}, podcert.Sign, "", 0},
		"its pod had many":       {ofPod, 2, func(*corev1.Pod) {}, podcert.Wait, "RateLimited", time.Hour},
		"its namespace had many": {ofNamespace, 2, func(*corev1.Pod) {}, podcert.Wait, "RateLimited", time.Minute},
		"many, and wrong":        {ofPod, 2, elsewhere, podcert.Deny, "WrongPod", 0},
	} {
		t.Run(name, func(t *testing.T) {
			controller := controllerWith(t, fake.NewClientBuilder().WithObjects(pod(c.change)).Build())
			controller.config.Pace = ratelimit.New(c.rates)
			for i := range c.before {
				controller.config.Pace.Waits(ratelimit.ShareOfPod(types.UID(fmt.Sprint(i)), "shop", "pod"), signertest.Epoch)
			}
			_, d, err := controller.decide(t.Context(), request(t))
			require.NoError(t, err)
			assert.Equal(t, c.verdict, d.Verdict, d.Message)
			assert.Equal(t, c.reason, d.Reason)
			want := time.Time{}
			if c.again > 0 {
				want = signertest.Epoch.Add(c.again)
			}
			assert.Equal(t, want, d.NextAt)
		})
	}
}

// controllerWith returns a controller whose cache has the namespace and its one Service.
func controllerWith(t *testing.T, live client.Reader) *Controller {
	t.Helper()
	shop := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{api.LabelInject: api.InjectEnabled}}}
	svc := signertest.Service("web", api.AnnotationKeySource, string(api.KeySourcePod))
	svc.Spec.Selector = map[string]string{"app": "web"}
	ca := signertest.CA(t)
	return &Controller{config: Config{Config: requests.Config{
		Limits: api.DefaultLimits(), MaxDuration: 24 * time.Hour, Pace: ratelimit.New(ratelimit.DefaultRates()),
		Cluster:   requests.NewCluster(fake.NewClientBuilder().WithObjects(shop).Build(), live, oneService{svc}, api.DefaultLimits()),
		Authority: func() (*pki.Authority, error) { return ca, nil },
		Clock:     func() time.Time { return signertest.Epoch },
	}}}
}

func request(t *testing.T) *podcert.Request {
	t.Helper()
	day := int32(86400)
	return podcert.FactsOf(&certificatesv1.PodCertificateRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "req-1", UID: "request", ResourceVersion: "7"},
		Spec: certificatesv1.PodCertificateRequestSpec{
			SignerName: api.SignerName, PodName: "web-1", PodUID: "pod", NodeName: "node-1", ServiceAccountName: "default",
			MaxExpirationSeconds: &day, StubPKCS10Request: signertest.CSR(t, signertest.Key(t, pki.ECDSAP256)),
		},
	})
}
