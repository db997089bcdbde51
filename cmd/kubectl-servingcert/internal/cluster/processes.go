package cluster

import (
	"context"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/doctor"
)

// Processes returns the processes of servingcert, and their states. Texts are escaped.
func (c *Cluster) Processes(ctx context.Context, system string) ([]doctor.Process, error) {
	all, err := c.Leading(ctx, system)
	if err != nil {
		return nil, err
	}
	found, err := c.Client.DiscoveryV1().EndpointSlices(system).List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + doctor.WebhookService})
	switch {
	case apierrors.IsForbidden(err):
		return append(all, doctor.WebhookNotSeen(system, "this user may not list EndpointSlices in "+system)), nil
	case err != nil:
		return nil, fmt.Errorf("list EndpointSlices of Service %s/%s: %w", system, doctor.WebhookService, err)
	}
	return append(all, doctor.WebhookOf(system, found.Items)), nil
}

// Leading returns the processes of servingcert that work only while they hold a Lease. Texts
// are escaped.
func (c *Cluster) Leading(ctx context.Context, system string) ([]doctor.Process, error) {
	leases, err := Leases(ctx, c.Client, system)
	switch {
	case apierrors.IsForbidden(err):
		return doctor.LeadingNotSeen(system, "this user may not list Leases in "+system), nil
	case err != nil:
		return nil, fmt.Errorf("list Leases in %s: %w", system, err)
	}
	all := doctor.Leading(system, leases, c.Clock.Now())
	for i := range all {
		all[i].Why = api.Escape(all[i].Why)
	}
	return all, nil
}

// noRotator returns the problem if no rotator runs, and why this is unknown if the user may not list Leases.
func (c *Cluster) noRotator(ctx context.Context, system string) (problem, unknown string, err error) {
	all, err := c.Leading(ctx, system)
	for _, p := range all {
		switch {
		case p.Name != "rotator":
		case p.State == doctor.ProcessAway:
			problem = p.String()
		case p.State == doctor.ProcessNotSeen:
			unknown = p.Why
		}
	}
	return problem, unknown, err
}

// Leases returns the Leases of a namespace, by name.
func Leases(ctx context.Context, client kubernetes.Interface, namespace string) (map[string]*coordinationv1.Lease, error) {
	list, err := client.CoordinationV1().Leases(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	leases := make(map[string]*coordinationv1.Lease, len(list.Items))
	for i := range list.Items {
		leases[list.Items[i].Name] = &list.Items[i]
	}
	return leases, nil
}

// Elsewhere returns the state of a process in each namespace that has its Lease, by namespace; forbidden if the user
// may not list the Leases of all namespaces.
func (c *Cluster) Elsewhere(ctx context.Context, process string) (in map[string]doctor.Process, forbidden bool, err error) {
	list, err := c.Client.CoordinationV1().Leases("").List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + doctor.LeaseName(process)})
	switch {
	case apierrors.IsForbidden(err):
		return nil, true, nil
	case err != nil:
		return nil, false, fmt.Errorf("list Leases %s of all namespaces: %w", doctor.LeaseName(process), err)
	}
	in = make(map[string]doctor.Process, len(list.Items))
	for i := range list.Items {
		lease := &list.Items[i]
		in[lease.Namespace] = doctor.LeaderOf(lease.Namespace, process, lease, c.Clock.Now())
	}
	return in, false, nil
}
