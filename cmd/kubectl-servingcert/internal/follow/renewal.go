package follow

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/judge"
	"github.com/servingcert/servingcert/pkg/api"
)

// Renewal waits until the condition of each Service names another leaf than before.
func (w *Watcher) Renewal(ctx context.Context, waiting []judge.Service) error {
	defer w.Bar.Clear()
	all := len(waiting)
	for {
		var err error
		if waiting, err = w.stillSame(ctx, waiting); err != nil && ctx.Err() == nil {
			return err
		}
		w.Bar.Set(all-len(waiting), all, "certificates are renewed")
		if len(waiting) == 0 {
			return nil
		}
		if !pause(ctx, lookEvery) {
			return fmt.Errorf("not renewed after %s: %s", w.Timeout, describe(waiting))
		}
	}
}

// stillSame prints the Services that have another leaf and returns the others.
func (w *Watcher) stillSame(ctx context.Context, waiting []judge.Service) ([]judge.Service, error) {
	var same []judge.Service
	for i, s := range waiting {
		svc, err := w.Cluster.Client.CoreV1().Services(s.Namespace).Get(ctx, s.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			_, _ = fmt.Fprintf(w.Out, "%s/%s was deleted\n", s.Namespace, s.Name)
			continue
		}
		if err != nil {
			return append(same, waiting[i:]...), err
		}
		if leaf, ok := api.LeafOf(svc); ok && leaf != s.Leaf {
			_, _ = fmt.Fprintf(w.Out, "%s/%s has a new certificate in Secret %s: leaf %s\n", s.Namespace, s.Name, s.Secret, judge.Short(leaf))
			continue
		}
		same = append(same, current(s, svc))
	}
	return same, nil
}

// current is the Service as it is now, with the leaf that it had before.
func current(before judge.Service, svc *corev1.Service) judge.Service {
	now, _ := judge.ServiceOf(svc)
	now.Leaf = before.Leaf
	return now
}

// describe says what the first few of the Services wait for.
func describe(waiting []judge.Service) string {
	var texts []string
	for _, s := range waiting[:min(len(waiting), 5)] {
		texts = append(texts, fmt.Sprintf("%s (Ready=%s %s: %s)", s, judge.Dash(s.Ready), judge.Dash(s.Reason), judge.Dash(s.Message)))
	}
	if more := len(waiting) - len(texts); more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(texts, "; ")
}
