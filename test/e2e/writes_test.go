//go:build e2e

package e2e

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/pki"
)

// writes records when each certificate was written to its Secret, by watching Secrets. The propagation
// to pods is measured from then.
type writes struct {
	mu     sync.Mutex
	leaves map[client.ObjectKey][]written
}

type written struct {
	leaf string
	at   time.Time
}

// watchWrites returns when all Secrets with the labels are listed. It continues until ctx ends, also if the API
// server is down in between.
func watchWrites(ctx context.Context, clients kubernetes.Interface, namespace, labels string) (*writes, error) {
	w := &writes{leaves: map[client.ObjectKey][]written{}}
	factory := informers.NewSharedInformerFactoryWithOptions(clients, 0, informers.WithNamespace(namespace), informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.LabelSelector = labels
	}))
	informer := factory.Core().V1().Secrets().Informer()
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { w.saw(obj.(*corev1.Secret), time.Now()) },
		UpdateFunc: func(_, obj any) { w.saw(obj.(*corev1.Secret), time.Now()) },
	}); err != nil {
		return nil, err
	}
	factory.Start(ctx.Done())
	toolscache.WaitForCacheSync(ctx.Done(), informer.HasSynced)
	return w, context.Cause(ctx)
}

func (w *writes) saw(secret *corev1.Secret, now time.Time) {
	block, _ := pem.Decode(secret.Data[corev1.TLSCertKey])
	if block == nil {
		return
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	key, fingerprint := client.ObjectKeyFromObject(secret), pki.Fingerprint(leaf)
	seen := w.leaves[key]
	if len(seen) == 0 || seen[len(seen)-1].leaf != fingerprint {
		w.leaves[key] = append(seen, written{fingerprint, now})
	}
}

// of returns the certificates of a Secret, oldest first.
func (w *writes) of(namespace, secret string) []written {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]written(nil), w.leaves[client.ObjectKey{Namespace: namespace, Name: secret}]...)
}

// latest returns the certificate of every Secret.
func (w *writes) latest() map[client.ObjectKey]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	leaves := map[client.ObjectKey]string{}
	for key, seen := range w.leaves {
		leaves[key] = seen[len(seen)-1].leaf
	}
	return leaves
}
