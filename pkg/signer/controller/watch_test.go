package controller

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/servingcert/servingcert/pkg/signer"
	"github.com/servingcert/servingcert/pkg/signer/queue"
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
			enqueueAll(q, requests, tt.own)
			assert.Eventually(t, func() bool { return q.Len() == len(requests) }, 10*time.Second, time.Millisecond)
			first, _ := q.Get()
			assert.Equal(t, tt.first, first.Namespace)
		})
	}
}

// Thousands of Secrets of a namespace whose time has come, or whose CA has changed, do not
// delay one that a Service or a deletion asks for.
func TestWhatSomebodyWaitsForComesBeforeRenewals(t *testing.T) {
	assert.Equal(t, handler.LowPriority, signer.PriorityRenewal)
	shop := func(name string) reconcile.Request { return requestOf("shop", name) }
	q := queue.New("", queue.Retries())
	defer q.ShutDown()
	var requests []reconcile.Request
	for i := range 100 {
		requests = append(requests, shop(fmt.Sprint(i)))
	}
	enqueueAll(q, requests, "servingcert-system")

	enqueue(q, "shop", "57")
	enqueue(q, "shop", "new")
	for _, want := range []string{"57", "new", "0", "1"} {
		got, _ := q.Get()
		assert.Equal(t, want, got.Name)
	}
}
