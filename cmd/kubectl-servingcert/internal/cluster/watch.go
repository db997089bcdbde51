package cluster

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/status"
)

// WatchServices visits the Services of a namespace that have or request a certificate:
// first all, and then each that changes, until ctx ends or visit returns an error. A name
// and a selector restrict them unless "". It reconnects when a connection ends.
func (c *Cluster) WatchServices(ctx context.Context, namespace, name, selector string, visit func([]status.Service) error) error {
	for {
		again, err := c.watchOnce(ctx, namespace, name, selector, visit)
		if !again {
			return err
		}
	}
}

// watchOnce reports again if the resource version has expired, so the Services must be
// listed again.
func (c *Cluster) watchOnce(ctx context.Context, namespace, name, selector string, visit func([]status.Service) error) (again bool, err error) {
	restrict := func(opts metav1.ListOptions) metav1.ListOptions {
		opts.LabelSelector = selector
		if name != "" {
			opts.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
		}
		return opts
	}
	list, err := c.Client.CoreV1().Services(namespace).List(ctx, restrict(metav1.ListOptions{}))
	if err != nil {
		return false, fmt.Errorf("list Services: %w", err)
	}
	if err := visitServices(list.Items, visit); err != nil {
		return false, err
	}
	w, err := watchtools.NewRetryWatcherWithContext(ctx, list.ResourceVersion, &toolscache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			return c.Client.CoreV1().Services(namespace).Watch(ctx, restrict(opts))
		},
	})
	if err != nil {
		return false, fmt.Errorf("watch Services: %w", err)
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		switch object := event.Object.(type) {
		case *corev1.Service:
			if event.Type == watch.Deleted {
				continue
			}
			if err := visitServices([]corev1.Service{*object}, visit); err != nil {
				return false, err
			}
		case *metav1.Status:
			err := &apierrors.StatusError{ErrStatus: *object}
			if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
				return true, nil
			}
			return false, fmt.Errorf("watch Services: %w", err)
		}
	}
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	return false, errors.New("watch Services: the API server ended the watch")
}

func visitServices(services []corev1.Service, visit func([]status.Service) error) error {
	var found []status.Service
	for i := range services {
		if s, ok := status.ServiceOf(&services[i]); ok {
			found = append(found, s)
		}
	}
	if len(found) == 0 {
		return nil
	}
	return visit(found)
}
