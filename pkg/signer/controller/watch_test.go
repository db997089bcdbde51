package controller

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fcache "k8s.io/client-go/tools/cache/testing"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/facts"
	"github.com/servingcert/servingcert/pkg/facts/queue"
	"github.com/servingcert/servingcert/pkg/signer/issue"
	"github.com/servingcert/servingcert/pkg/signer/ratelimit"
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

// Thousands of renewals in a namespace do not delay a Secret that a new Service requests or that
// was deleted.
func TestNewServicesComeBeforeRenewals(t *testing.T) {
	assert.Equal(t, handler.LowPriority, ratelimit.PriorityRenewal)
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

// When the signer starts, a Service whose Secret is missing does not wait behind those with valid
// Secrets.
func TestMissingSecretsComeFirstAtTheStart(t *testing.T) {
	issued := issueBy(t, testCA(t), wantedBy(service("web")))
	c := withSecrets(t, issued, issue.Issued{}, issued) // s0, s1 without a pair, s2
	services := fcache.NewFakeControllerSource()
	for _, name := range []string{"s0", "s1", "s2", "s3"} {
		svc := service(name, api.AnnotationSecretName, name)
		svc.UID = types.UID(name)
		services.Add(svc)
	}
	informer, err := facts.NewInformerOf(services, serviceOptions(false))
	require.NoError(t, err)
	start(t, informer)
	c.services = &Services{informer}
	q := queue.New("", queue.Retries())
	defer q.ShutDown()
	require.NoError(t, c.services.Source("Services", c.serviceChanged, c.secrets).Start(t.Context(), q))
	got := waiting(q)
	assert.ElementsMatch(t, []string{"s1", "s3"}, got[:2])
	assert.ElementsMatch(t, []string{"s0", "s2"}, got[2:])
}

// A new leader may have reconciled the first Secrets before it has read the CA. It then reconciles
// all of them again.
func TestMissingSecretsComeFirstWhenTheCAIsKnown(t *testing.T) {
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

// When a Service changes, the other Secrets that it owns are reconciled: it may now keep them.
func TestOtherSecretsOfAServiceAreEnqueued(t *testing.T) {
	issued := issueBy(t, testCA(t), wantedBy(service("web")))
	c := withSecrets(t, issued, issued) // s0 and s1
	q := queue.New("", queue.Retries())
	defer q.ShutDown()
	c.serviceChanged(t.Context(), q, nil, service("web", api.AnnotationSecretName, "s1"))
	for c.fanOut.Next() {
	}
	assert.Equal(t, []string{"s1", "s0"}, waiting(q))
}

// A handler enqueues only a few of the Secrets that a tenant's Services own, because it blocks the
// events of all tenants. The fan-out enqueues the others in the tenant's turn.
func TestHandlersCostTheSameForLargeTenants(t *testing.T) {
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
			namespace := facts.Metadata("Namespace")
			namespace.Name = "shop"
			c.namespaceHandler().Create(t.Context(), event.CreateEvent{Object: namespace}, q)
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := withSecrets(t, pairs...)
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

// The cache has only the identity of a namespace, and whether it is being deleted.
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
		before := facts.Metadata("Namespace")
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
