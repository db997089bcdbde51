package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate"
	"github.com/servingcert/servingcert/pkg/mutate/choose"
)

// choose chooses from the informers, or else from reads of the API server: a Service that was created before its pod
// is always seen, however soon the pod follows. unknown are the namespaces that are not in live and have to be.
func (h *handler) choose(ctx context.Context, pod *corev1.Pod, wanted api.PodRequest, namespace string, live map[string]choose.Known) (choice choose.Choice, unknown []string) {
	if !mutate.NeedsLookup(pod, wanted) {
		return choose.Choice{}, nil
	}
	known, isLive := live[namespace]
	if !isLive {
		var ok bool
		if known, ok = h.cached(ctx, namespace); !ok {
			return choose.Choice{}, []string{namespace}
		}
	}
	choice = choose.Secret(pod, wanted, h.with(ctx, known, namespace, live))
	if !isLive && (!choice.FromServices() || len(choice.Missing) > 0) {
		unknown = append(unknown, namespace)
	}
	ask := func(other string) {
		if _, read := live[other]; !read && !slices.Contains(unknown, other) {
			unknown = append(unknown, other)
		}
	}
	for _, missing := range choice.Missing {
		ask(missing)
	}
	for _, doubtful := range choice.Doubtful { // once, and no more than may be read
		if len(live) == 0 && len(unknown) < maxElsewhere {
			ask(doubtful)
		}
	}
	return choice, unknown
}

// with returns what is known of the namespace, with what is the same for all namespaces, and the Services of others.
func (h *handler) with(ctx context.Context, known choose.Known, namespace string, live map[string]choose.Known) choose.Known {
	known.In, known.Config = namespace, h.config
	known.Elsewhere = func(namespace, name string) *corev1.Service {
		other, read := live[namespace]
		if !read {
			return h.elsewhere(ctx, namespace, name)
		}
		if i := slices.IndexFunc(other.Services, func(svc *corev1.Service) bool { return svc.Name == name }); i >= 0 {
			return other.Services[i]
		}
		return nil
	}
	known.Programs = h.programs()
	return known
}

// maxElsewhere bounds the other namespaces that are read for a review, because the informers do not know Services of
// them.
const maxElsewhere = 16

// read adds what the API server says about the namespaces, which it asks for all at the same time. The error is
// errNotOptedIn only about the pod's own.
func (h *handler) read(ctx context.Context, own string, namespaces []string, live map[string]choose.Known) error {
	if len(namespaces) > maxElsewhere+1 {
		return fmt.Errorf("%s: Services of more than %d other namespaces are not known: correct their names", api.AnnotationConnect, maxElsewhere)
	}
	var others errgroup.Group
	known := make([]choose.Known, len(namespaces))
	for i, namespace := range namespaces {
		if namespace != own {
			others.Go(func() (err error) {
				if known[i], err = h.live(ctx, namespace); errors.Is(err, errNotOptedIn) {
					return nil
				}
				return err
			})
		}
	}
	if i := slices.Index(namespaces, own); i >= 0 {
		var err error
		if known[i], err = h.live(ctx, own); err != nil {
			return err
		}
	}
	if err := others.Wait(); err != nil {
		return err
	}
	for i, namespace := range namespaces {
		live[namespace] = known[i]
	}
	return nil
}
