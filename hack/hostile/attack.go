package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/hack/process"
)

// attack is something that a tenant does to all others, again and again until ctx ends.
// Its rate is bounded, so that what is shown is more than a busy API server.
type attack struct {
	name, what string
	run        func(ctx context.Context, a *attacker)
}

// attacks returns all.
func attacks() []attack {
	return []attack{
		{"pod-ports", "Pending pods with 500 Secrets in a volume and 500 ports", objects(500*time.Millisecond, podPorts)},
		{"pod-containers", "pods whose annotation containers has 182 KiB, through the webhook and past it", podContainers},
		{"pod-owners", "pods, Secrets and ConfigMaps with owner references of 200 KiB to 900 KiB", objects(500*time.Millisecond, longOwners)},
		{"pods-huge", "pods with 4000 labels and 1000 ports, past the webhook", objects(500*time.Millisecond, podsHuge)},
		{"crash-words", "pods with a forged status that crash four times a second, always with another message and as of another template", crashWords},
		{"secret-keys", "Secrets with the signer's label and an RSA key of 390 KiB or 16 KiB", objects(500*time.Millisecond, secretKeys)},
		{"secret-names", "Secrets with the signer's label and a certificate of 240 000 names", objects(time.Second, secretNames)},
		{"secret-labels", "Secrets with the signer's label, empty, that Services of the tenant and unknown objects own", stolenLabels},
		{"service-names", "Services whose extra-dns-names has 62 KiB, always others", serviceNames},
		{"service-flips", "five Services that each change secret-name ten times a second", serviceFlips},
		{"service-renewals", "20 Services that ask for another RSA key, one every 0.1 s", serviceRenewals},
		{"csr-waiting", "500 CertificateSigningRequests of a pod that wait for eight Services each, one of which always changes, and two a second for 100 names", waitingCSRs},
		{"service-selectors", "60 Services whose selectors have 10 000 labels, 1.2 MiB each", objects(200*time.Millisecond, serviceSelectors)},
		{"service-ports", "60 Services with 5000 ports, 0.8 MiB each", objects(200*time.Millisecond, servicePorts)},
		{"service-texts", "60 Services with 5000 labels, 90 long names and 200 KiB of annotations that mean nothing", objects(200*time.Millisecond, serviceTexts)},
		{"bad-annotations", "Services, pods and ConfigMaps with annotations of 64 KiB that are not valid", objects(250*time.Millisecond, badAnnotations)},
		{"opt-in", "conditions of 50 Services that say that they have certificates, in a namespace without the label", forgedConditions},
		{"reviews", "reviews of variable bombs and of empty values, posted at the webhook by an unknown client", reviews},
		{"reviews-slow", "200 connections from 50 addresses to the webhook that send a byte a second", slowReviews},
		{"ports-headers", "600 connections from 50 addresses to every port of the processes, each with a header of 1 MiB that does not end", portsHeaders},
		{"ports-idle", "600 connections from 600 addresses to every port, silent after a request that is refused", portsIdle},
		{"tarpits", "200 pods with 16 ports that accept and never answer; the Service's ports change", tarpits},
		{"rollouts", "Deployments that ask to be restarted and never finish, or flap", rollouts},
		{"trust-stream", "20 new annotated ConfigMaps a second, and two that alternate", trustStream},
		{"trust-immutable", "annotated ConfigMaps of 1 MiB that are immutable", objects(time.Second, trustImmutable)},
	}
}

// attacker runs one attack, and counts what became of it.
type attacker struct {
	attack
	*tenant
	webhook string // host:port
	ports   []port

	mu            sync.Mutex
	sent, refused int
	last          string // error
	breaches      int    // what it got and must not get
	lastBreach    string
}

// launch starts the attacks. The function that it returns waits until they have ended.
func launch(ctx context.Context, attacks []attack, t *tenant, webhook string, ports []port) (finish func() []*attacker) {
	var all []*attacker
	var running sync.WaitGroup
	for _, each := range attacks {
		a := &attacker{attack: each, tenant: t, webhook: webhook, ports: ports}
		all = append(all, a)
		running.Go(func() { a.run(ctx, a) })
	}
	return func() []*attacker {
		running.Wait()
		return all
	}
}

// count counts a request, and reports whether it was accepted.
func (a *attacker) count(ctx context.Context, err error) bool {
	if ctx.Err() != nil {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sent++
	if err != nil {
		a.refused++
		a.last = err.Error()
	}
	return err == nil
}

// repeat does something again and again, with a pause.
func (a *attacker) repeat(ctx context.Context, pause time.Duration, do func(i int) error) {
	for i := 0; ctx.Err() == nil; i++ {
		a.count(ctx, do(i))
		process.Sleep(ctx, pause)
	}
}

// many does something n times at the same time.
func many(n int, do func(i int)) {
	var running sync.WaitGroup
	for i := range n {
		running.Go(func() { do(i) })
	}
	running.Wait()
}

// nth returns the name of the i-th object of an attack that keeps so many.
func (a *attacker) nth(i, keep int) string { return fmt.Sprint(a.name, "-", i%keep) }

// replace deletes what has the name of an object, and creates the object.
func (a *attacker) replace(ctx context.Context, o client.Object) error {
	o.SetNamespace(a.namespace)
	if err := a.client.Delete(ctx, o, client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
		return err
	}
	return a.client.Create(ctx, o)
}

// objects is an attack that replaces objects, one after the other: those of a constructor that is
// made once.
func objects(pause time.Duration, constructor func(a *attacker) func(i int) client.Object) func(context.Context, *attacker) {
	return func(ctx context.Context, a *attacker) {
		object := constructor(a)
		a.repeat(ctx, pause, func(i int) error { return a.replace(ctx, object(i)) })
	}
}
