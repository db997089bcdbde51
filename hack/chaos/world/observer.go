package world

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/servingcert/servingcert/hack/chaos/invariant"
	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

// Observer watches the signer's Secrets and keeps what certificates it saw.
type Observer struct {
	clientset kubernetes.Interface
	cancel    context.CancelFunc
	done      chan struct{}

	mu    sync.Mutex
	epoch int
	seen  map[invariant.Sighting]bool
	again context.CancelFunc // of the watch that runs
}

func observe(clientset kubernetes.Interface) *Observer {
	ctx, cancel := context.WithCancel(context.Background())
	o := &Observer{clientset: clientset, cancel: cancel, done: make(chan struct{}), seen: map[invariant.Sighting]bool{}}
	go func() {
		defer close(o.done)
		for ctx.Err() == nil {
			_ = o.follow(o.fresh(ctx)) // whatever the reason, it begins again
			process.Sleep(ctx, 200*time.Millisecond)
		}
	}()
	return o
}

func (o *Observer) close() {
	o.cancel()
	<-o.done
}

// fresh returns a context for a watch, which Rewound ends.
func (o *Observer) fresh(ctx context.Context) context.Context {
	o.mu.Lock()
	defer o.mu.Unlock()
	ctx, o.again = context.WithCancel(ctx)
	return ctx
}

// Rewound has what is seen from now on belong to another epoch, what is there now too.
func (o *Observer) Rewound() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.epoch++
	o.again()
}

// Seen returns what was seen.
func (o *Observer) Seen() []invariant.Sighting {
	o.mu.Lock()
	defer o.mu.Unlock()
	out := make([]invariant.Sighting, 0, len(o.seen))
	for s := range o.seen {
		out = append(out, s)
	}
	return out
}

// follow lists and watches until the watch ends.
func (o *Observer) follow(ctx context.Context) error {
	options := metav1.ListOptions{LabelSelector: api.LabelManagedBy + "=" + api.DefaultInstance}
	list, err := o.clientset.CoreV1().Secrets("").List(ctx, options)
	if err != nil {
		return err
	}
	for i := range list.Items {
		o.see(&list.Items[i])
	}
	options.ResourceVersion = list.ResourceVersion
	w, err := o.clientset.CoreV1().Secrets("").Watch(ctx, options)
	if err != nil {
		return err
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		secret, ok := event.Object.(*corev1.Secret)
		if !ok {
			return fmt.Errorf("watch: %v", event.Object)
		}
		o.see(secret)
	}
	return nil
}

func (o *Observer) see(secret *corev1.Secret) {
	chain, err := pki.ParseCertificates(secret.Data[corev1.TLSCertKey])
	if err != nil {
		return // the check of what is in the cluster says so
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.seen[invariant.See(o.epoch, secret.Namespace+"/"+secret.Name, chain[0])] = true
}

// Summary counts certificates, keys and CAs that signed.
func Summary(seen []invariant.Sighting) string {
	leaves, keys, cas := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, s := range seen {
		leaves[s.Leaf], keys[s.Key], cas[s.Issuer] = true, true, true
	}
	names := make([]string, 0, len(cas))
	for name := range cas {
		names = append(names, name)
	}
	slices.Sort(names)
	return fmt.Sprintf("%d certificates with %d keys, signed by %q", len(leaves), len(keys), names)
}
