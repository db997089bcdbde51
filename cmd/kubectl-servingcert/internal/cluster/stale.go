package cluster

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/judge"
	"github.com/servingcert/servingcert/pkg/api"
)

// AddStale completes the Services with the workloads that serve an older
// certificate, as the rotator has reported them in the namespace of servingcert.
// That the report is missing or cannot be read is no error: the Services say so.
func (c *Cluster) AddStale(ctx context.Context, system string, services []judge.Service) error {
	if !slices.ContainsFunc(services, func(s judge.Service) bool { return s.Serving != nil }) {
		return nil
	}
	list, err := c.staleList(ctx, system)
	if err != nil {
		return err
	}
	judge.AddStale(services, list)
	return nil
}

func (c *Cluster) staleList(ctx context.Context, system string) (judge.StaleList, error) {
	name := fmt.Sprintf("ConfigMap %s/%s", system, api.ServingStatusName)
	cm, err := c.Client.CoreV1().ConfigMaps(system).Get(ctx, api.ServingStatusName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return judge.StaleList{Problem: name + " does not exist"}, nil
	case apierrors.IsForbidden(err):
		return judge.StaleList{Problem: err.Error()}, nil
	case err != nil:
		return judge.StaleList{}, fmt.Errorf("read %s: %w", name, err)
	}
	status, err := api.ParseServingStatus(cm.Data)
	if err != nil {
		return judge.StaleList{Problem: fmt.Sprintf("%s: %v", name, err)}, nil
	}
	return judge.StaleList{ServingStatus: status}, nil
}

// Kubelets returns what the rotator has reported of kubelets; nil if it reports nothing, or the user may not
// read it.
func (c *Cluster) Kubelets(ctx context.Context, system string) (*api.KubeletStatus, error) {
	name := fmt.Sprintf("ConfigMap %s/%s", system, api.KubeletStatusName)
	cm, err := c.Client.CoreV1().ConfigMaps(system).Get(ctx, api.KubeletStatusName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	status, err := api.ParseKubeletStatus(cm.Data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &status, nil
}

// OldClients reads who may hold an older CA bundle; nobody if the rotator has not reported it, or
// if the user may not read it.
func (c *Cluster) OldClients(ctx context.Context, system string) ([]judge.OldClients, error) {
	cm, err := c.Client.CoreV1().ConfigMaps(system).Get(ctx, api.ServingStatusName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read ConfigMap %s/%s: %w", system, api.ServingStatusName, err)
	}
	return judge.ParseOldClients(cm.Data), nil
}
