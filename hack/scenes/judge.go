package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/hack/installed"
	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/hack/scenes/invariant"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/ca"
	"github.com/servingcert/servingcert/pkg/pki"
)

// ours is the label of the signer's Secrets.
func ours() map[string]string { return map[string]string{api.LabelManagedBy: api.DefaultInstance} }

// sound is nil if each Service of the tenants, and of servingcert itself, has its one valid Secret.
func (w *world) sound(ctx context.Context) error {
	status, err := w.CAStatus(ctx)
	if err != nil {
		return err
	}
	namespaces := []string{api.DefaultNamespace}
	for _, t := range w.tenants {
		namespaces = append(namespaces, t.Namespace)
	}
	var violations []string
	for _, namespace := range namespaces {
		var services corev1.ServiceList
		var secrets corev1.SecretList
		var bundle corev1.ConfigMap
		if err := errors.Join(
			w.Admin.List(ctx, &services, client.InNamespace(namespace)),
			w.Admin.List(ctx, &secrets, client.InNamespace(namespace), client.MatchingLabels(ours())),
			client.IgnoreNotFound(w.Admin.Get(ctx, client.ObjectKey{Namespace: namespace, Name: api.BundleName}, &bundle)),
		); err != nil {
			return err
		}
		asking := slices.DeleteFunc(services.Items, func(svc corev1.Service) bool {
			return svc.Annotations[api.AnnotationSecretName] == "" || svc.Name == conflictName
		})
		bundles := map[string]string{"the CA's status": status.Bundle, "the namespace": bundle.Data[api.BundleKey]}
		violations = append(violations, invariant.Certificates(asking, secrets.Items, bundles, time.Now())...)
	}
	if len(violations) > 0 {
		return fmt.Errorf("%d violations, the first: %s", len(violations), violations[0])
	}
	return nil
}

// settle waits until the processes are ready, one replica of each kind leads, and each Service has
// its one valid Secret. It returns how long that took.
func (w *world) settle(ctx context.Context) (time.Duration, error) {
	return installed.Await(ctx, "it settles", poll, func(ctx context.Context) error {
		if err := w.Ready(ctx); err != nil {
			return err
		}
		if w.proxies { // metrics are for everybody
			if err := w.OneLeads(ctx); err != nil {
				return err
			}
		}
		return w.sound(ctx)
	})
}

// noteInterim waits for the CA that signs for servingcert's own namespace while the other is lost,
// and notes its key.
func (w *world) noteInterim(ctx context.Context) error {
	return installed.Until(ctx, "an interim CA", func(ctx context.Context) error {
		secret, err := w.Clientset.CoreV1().Secrets(api.DefaultNamespace).Get(ctx, api.CAInterimName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		state, err := ca.ParseState(secret.Data)
		for _, g := range state.Generations {
			w.interim[hex.EncodeToString(g.Root.SubjectKeyId)] = true
		}
		return err
	})
}

// usage returns what the processes hold, the largest replica of each kind.
func (w *world) usage(ctx context.Context) (map[string]invariant.Usage, error) {
	out := map[string]invariant.Usage{}
	for _, p := range w.Processes {
		resident, err := process.RSS(p.PID())
		if err != nil {
			return nil, err
		}
		m, err := p.Scrape(ctx)
		if err != nil {
			return nil, err
		}
		out[p.Kind] = out[p.Kind].Max(invariant.Usage{Resident: int64(resident), Goroutines: int(m.Sum("go_goroutines"))})
	}
	return out, nil
}

// sightings are the certificates that were in Secrets of the signer.
type sightings struct {
	mu    sync.Mutex
	epoch int
	seen  map[invariant.Sighting]bool
	ctx   context.Context // of the epoch
	end   context.CancelFunc
}

// begin begins an epoch: what is seen from now on belongs to it, what is there now too.
func (s *sightings) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.end != nil {
		s.end()
		s.epoch++
	}
	s.ctx, s.end = context.WithCancel(context.Background())
}

// observe watches the Secrets of a namespace until Stop.
func (w *world) observe(namespace string) {
	secrets := w.Clientset.CoreV1().Secrets(namespace)
	w.Every(2*poll, func(ctx context.Context) { w.sightings.follow(ctx, secrets) })
}

// follow lists and watches until the watch, or the epoch, ends.
func (s *sightings) follow(ctx context.Context, secrets typedcorev1.SecretInterface) {
	s.mu.Lock()
	epoch, over := s.epoch, s.ctx
	s.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(over, cancel)()
	options := metav1.ListOptions{LabelSelector: api.LabelManagedBy + "=" + api.DefaultInstance}
	list, err := secrets.List(ctx, options)
	if err != nil {
		return // it is called again
	}
	for i := range list.Items {
		s.see(epoch, &list.Items[i])
	}
	options.ResourceVersion = list.ResourceVersion
	w, err := secrets.Watch(ctx, options)
	if err != nil {
		return
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		if secret, ok := event.Object.(*corev1.Secret); ok {
			s.see(epoch, secret)
		}
	}
}

func (s *sightings) see(epoch int, secret *corev1.Secret) {
	chain, err := pki.ParseCertificates(secret.Data[corev1.TLSCertKey])
	if err != nil {
		return // the check of what is in the cluster says so
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen[invariant.See(epoch, chain[0])] = true
}

// judge returns what was seen and must not be.
func (s *sightings) judge(interim map[string]bool) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := slices.Collect(maps.Keys(s.seen))
	if len(seen) == 0 {
		return []string{"no certificate was seen"}
	}
	return append(invariant.Keys(seen), invariant.Generations(seen, interim)...)
}
