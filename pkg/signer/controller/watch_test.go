package controller

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fcache "k8s.io/client-go/tools/cache/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/facts"
	"github.com/servingcert/servingcert/pkg/facts/queue"
	"github.com/servingcert/servingcert/pkg/signer"
	"github.com/servingcert/servingcert/pkg/signer/issue"
	"github.com/servingcert/servingcert/pkg/signer/pace"
)

func TestOwnSecretsAreTheFirstAfterAChangeOfTheCA(t *testing.T) {
	request := func(namespace string) reconcile.Request { return requestOf(namespace, "tls") }
	requests := []reconcile.Request{request("shop"), request("bank"), request("servingcert-system"), request("zoo")}
	for _, tt := range []struct {
		name    string
		waiting []string // namespaces whose Secrets wait for their renewal, in this order
		own     string
		first   string
	}{
		{"none waits", nil, "servingcert-system", "servingcert-system"},
		{"all wait, the own one is the last", []string{"zoo", "bank", "shop", "servingcert-system"}, "servingcert-system", "servingcert-system"},
		{"no namespace is the own one", []string{"zoo", "bank", "shop", "servingcert-system"}, "", "shop"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			q := queue.New("", queue.Retries())
			defer q.ShutDown()
			for _, namespace := range tt.waiting {
				q.AddAfter(request(namespace), time.Hour)
			}
			c := withSecrets(t)
			c.config.Namespace = tt.own
			c.enqueueAll(q, requests)
			assert.Eventually(t, func() bool { return q.Len() == len(requests) }, process.Soon, time.Millisecond)
			first, _ := q.Get()
			assert.Equal(t, tt.first, first.Namespace)
		})
	}
}

// Thousands of Secrets of a namespace whose time has come, or whose CA has changed, do not
// delay one that a Service or a deletion asks for.
func TestWhatSomebodyWaitsForComesBeforeRenewals(t *testing.T) {
	assert.Equal(t, handler.LowPriority, pace.PriorityRenewal)
	shop := func(name string) reconcile.Request { return requestOf("shop", name) }
	q := queue.New("", queue.Retries())
	defer q.ShutDown()
	var requests []reconcile.Request
	for i := range 100 {
		requests = append(requests, shop(fmt.Sprint(i)))
	}
	c := withSecrets(t)
	c.config.Namespace = "servingcert-system"
	c.enqueueAll(q, requests)

	enqueue(q, "shop", "57")
	enqueue(q, "shop", "new")
	for _, want := range []string{"57", "new", "0", "1"} {
		got, _ := q.Get()
		assert.Equal(t, want, got.Name)
	}
}

// A Service whose Secret is missing does not wait behind all that are as they should be, when
// the signer starts.
func TestWhatIsMissingAtTheStartComesFirst(t *testing.T) {
	issued := issueBy(t, testCA(t), wantedBy(service("web")))
	c := withSecrets(t, issued, issue.Issued{}, issued) // s0, s1 without a pair, s2
	services := fcache.NewFakeControllerSource()
	for _, name := range []string{"s0", "s1", "s2", "s3"} {
		svc := service(name, api.AnnotationSecretName, name)
		svc.UID = types.UID(name)
		services.Add(svc)
	}
	var err error
	c.services, err = newServices(services, false)
	require.NoError(t, err)
	start(t, c.services.Informer)
	q := queue.New("", queue.Retries())
	defer q.ShutDown()
	require.NoError(t, c.services.Source("Services", c.serviceChanged, c.secrets).Start(t.Context(), q))
	got := waiting(q)
	assert.ElementsMatch(t, []string{"s1", "s3"}, got[:2])
	assert.ElementsMatch(t, []string{"s0", "s2"}, got[2:])
}

// A process that begins to lead may have looked at the first Secrets before it knows the CA. Then
// it looks at all again.
func TestWhatIsMissingIsTheFirstWhenTheCAIsKnown(t *testing.T) {
	issued := issueBy(t, testCA(t), wantedBy(service("web")))
	c := withSecrets(t, issued, issue.Issued{}, issued) // s0, s1 without a pair, s2
	q := queue.New("", queue.Retries())
	defer q.ShutDown()
	var requests []reconcile.Request
	for _, name := range []string{"s0", "s1", "s2", "s3"} {
		requests = append(requests, requestOf("shop", name))
	}
	c.enqueueAll(q, requests)
	assert.Equal(t, []string{"s1", "s3", "s0", "s2"}, waiting(q))
}

// waiting takes what is in the queue.
func waiting(q facts.Queue) (names []string) {
	for q.Len() > 0 {
		r, _ := q.Get()
		names = append(names, r.Name)
		q.Done(r)
	}
	return names
}

// What this process wrote is no reason to look at a Secret again: it went on with it.
func TestWhatWeWroteToASecretIsNotLookedAtAgain(t *testing.T) {
	ca := testCA(t)
	issued := issueBy(t, ca, wantedBy(service("web")))
	c := withSecrets(t)
	c.config.Clock, c.wroteSecret = func() time.Time { return epoch }, facts.NewWritten[*signer.SecretFacts]()
	q := queue.New("", queue.Retries())
	defer q.ShutDown()
	secret := func(version string) *signer.SecretFacts {
		s := managed(issued)
		s.ResourceVersion = version
		return signer.FactsOf(s, api.DefaultInstance)
	}
	c.secretChanged(t.Context(), q, nil, secret("9"))
	assert.Equal(t, []string{"web-tls"}, waiting(q), "somebody else wrote it")

	ours := secret("10")
	require.NotNil(t, ours.SignedBy(ca))
	c.wroteSecret.Put(client.ObjectKeyFromObject(ours), "10", ours, epoch)
	seen := secret("10")
	c.secretChanged(t.Context(), q, secret("9"), seen)
	assert.Empty(t, waiting(q))
	assert.Equal(t, ours.SignedBy(ca), seen.SignedBy(ca), "who signed it is known")
	c.secretChanged(t.Context(), q, seen, secret("11"))
	assert.Equal(t, []string{"web-tls"}, waiting(q), "somebody changed it afterwards")
	c.secretChanged(t.Context(), q, secret("11"), nil)
	assert.Equal(t, []string{"web-tls"}, waiting(q), "it was deleted")

	for version, want := range map[string][]string{"20": nil, "21": {"web-tls"}} {
		c.wroteSecret = facts.NewWritten[*signer.SecretFacts]()
		end := c.wroteSecret.Begin(client.ObjectKeyFromObject(ours), ours)
		c.secretChanged(t.Context(), q, nil, secret("20"))
		assert.Empty(t, waiting(q), "it is not known yet who wrote it")
		c.wroteSecret.Put(client.ObjectKeyFromObject(ours), version, ours, epoch)
		end()
		assert.Equal(t, want, waiting(q), "the answer was version %s", version)
	}
}

// The same of a Service: unless something else has changed with the condition.
func TestWhatWeWroteToAServiceIsNotLookedAtAgain(t *testing.T) {
	for name, tt := range map[string]struct {
		version string
		change  func(*corev1.Service)
		want    []string
	}{
		"only what we wrote":          {"10", func(*corev1.Service) {}, nil},
		"with annotations of ours":    {"10", func(svc *corev1.Service) { svc.Annotations[api.OpenShiftSignedBy] = "CA" }, nil},
		"another write":               {"11", func(*corev1.Service) {}, []string{"web-tls"}},
		"another lifetime is asked":   {"10", func(svc *corev1.Service) { svc.Annotations[api.AnnotationDuration] = "1h" }, []string{"web-tls"}},
		"another Secret is asked for": {"10", func(svc *corev1.Service) { svc.Annotations[api.AnnotationSecretName] = "new" }, []string{"web-tls", "new"}},
		"another selector":            {"10", func(svc *corev1.Service) { svc.Spec.Selector = map[string]string{"app": "x"} }, []string{"web-tls"}},
		"it is being deleted":         {"10", func(svc *corev1.Service) { svc.DeletionTimestamp = new(metav1.Now()) }, []string{"web-tls", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			c := withSecrets(t)
			c.config.Clock, c.wroteStatus = func() time.Time { return epoch }, facts.NewWritten[stated]()
			q := queue.New("", queue.Retries())
			defer q.ShutDown()
			before := service("web")
			before.ResourceVersion = "9"
			after := before.DeepCopy()
			after.ResourceVersion = tt.version
			after.Status.Conditions = []metav1.Condition{{Type: api.ConditionReady, Status: metav1.ConditionTrue}}
			c.wroteStatus.Put(client.ObjectKeyFromObject(after), "10", statedBy(after), epoch)
			tt.change(after)
			c.serviceChanged(t.Context(), q, before, after)
			assert.Equal(t, tt.want, waiting(q))

			c.wroteStatus = facts.NewWritten[stated]()
			end := c.wroteStatus.Begin(client.ObjectKeyFromObject(after), stated{})
			c.serviceChanged(t.Context(), q, before, after)
			c.wroteStatus.Put(client.ObjectKeyFromObject(after), "10", statedBy(after), epoch)
			end()
			assert.Equal(t, tt.want, waiting(q), "the change was seen before the answer")
		})
	}
}

// Of a Service that owns several Secrets the others are looked at: they may say that they
// are kept.
func TestTheOtherSecretsOfAServiceAreLookedAt(t *testing.T) {
	issued := issueBy(t, testCA(t), wantedBy(service("web")))
	c := withSecrets(t, issued, issued) // s0 and s1
	c.config.Clock, c.wroteStatus = func() time.Time { return epoch }, facts.NewWritten[stated]()
	q := queue.New("", queue.Retries())
	defer q.ShutDown()
	before := service("web", api.AnnotationSecretName, "s1")
	after := before.DeepCopy()
	after.ResourceVersion = "10"
	c.wroteStatus.Put(client.ObjectKeyFromObject(after), "10", statedBy(after), epoch)
	c.serviceChanged(t.Context(), q, before, after)
	for c.fanOut.Next() {
	}
	assert.Equal(t, []string{"s0"}, waiting(q))
}

// However many Secrets a tenant has its Services own, a handler enqueues a few of them: those of all
// tenants wait for it. The others follow, in the turn of the tenant.
func TestWhatAHandlerDoesDoesNotGrowWithWhatATenantHas(t *testing.T) {
	issued := issueBy(t, testCA(t), wantedBy(service("web")))
	const many, few = 80, 9
	pairs := slices.Repeat([]issue.Issued{issued}, many)
	for name, change := range map[string]func(c *Controller, q facts.Queue){
		"a Service": func(c *Controller, q facts.Queue) {
			c.serviceChanged(t.Context(), q, nil, service("web", api.AnnotationSecretName, "s1"))
		},
		"the owners of a Secret": func(c *Controller, q facts.Queue) {
			before := *c.secrets.Get(types.NamespacedName{Namespace: "shop", Name: "s1"})
			after := before
			after.OwnerReferences, after.ResourceVersion = nil, "99"
			c.secretChanged(t.Context(), q, &before, &after)
		},
		"a namespace": func(c *Controller, q facts.Queue) {
			namespace := metadataOf(namespaceKind)
			namespace.Name = "shop"
			c.namespaceHandler().Create(t.Context(), event.CreateEvent{Object: namespace}, q)
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := withSecrets(t, pairs...)
			c.config.Clock, c.wroteSecret, c.wroteStatus = func() time.Time { return epoch }, facts.NewWritten[*signer.SecretFacts](), facts.NewWritten[stated]()
			q := queue.New("", queue.Retries())
			defer q.ShutDown()
			change(c, q)
			assert.LessOrEqual(t, q.Len(), few)
			for c.fanOut.Next() {
			}
			assert.GreaterOrEqual(t, q.Len(), many, "all are looked at")
			assert.LessOrEqual(t, q.Len(), many+1)
		})
	}
}

// Nothing is known of a namespace but which one it is, and whether it is being deleted.
func TestWhichChangesOfANamespaceMatter(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*metav1.PartialObjectMetadata)
		want   int
	}{
		"nothing that is known": {func(ns *metav1.PartialObjectMetadata) { ns.ResourceVersion = "8" }, 0},
		"it is another":         {func(ns *metav1.PartialObjectMetadata) { ns.UID = "other" }, 1},
		"it is being deleted":   {func(ns *metav1.PartialObjectMetadata) { ns.DeletionTimestamp = new(metav1.Now()) }, 1},
	} {
		c := withSecrets(t, issueBy(t, testCA(t), wantedBy(service("web"))))
		q := queue.New("", queue.Retries())
		before := metadataOf(namespaceKind)
		before.Name, before.UID = "shop", "uid"
		after := before.DeepCopy()
		tt.change(after)
		c.namespaceHandler().Update(t.Context(), event.UpdateEvent{ObjectOld: before, ObjectNew: after}, q)
		for c.fanOut.Next() {
		}
		if assert.GreaterOrEqual(t, q.Len(), tt.want, name); tt.want == 0 {
			assert.Zero(t, q.Len(), name)
		}
		q.ShutDown()
	}
}
