package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/plan"
)

// Allowed reports whether the user of the client has the permission.
func Allowed(ctx context.Context, client kubernetes.Interface, a authorizationv1.ResourceAttributes) (bool, error) {
	review, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx,
		&authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &a}}, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("check the permissions of this user: %w", err)
	}
	return review.Status.Allowed, nil
}

// SecretOf reports whether a Secret exists, and which instance of servingcert manages it. It reads only metadata.
func (c *Cluster) SecretOf(ctx context.Context, namespace, name string) (exists bool, managedBy string, err error) {
	raw, err := c.Client.CoreV1().RESTClient().Get().Namespace(namespace).Resource("secrets").Name(name).
		SetHeader("Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1").DoRaw(ctx)
	if apierrors.IsNotFound(err) {
		return false, "", nil
	}
	if err != nil {
		return false, "", err
	}
	var meta metav1.PartialObjectMetadata
	if err := json.Unmarshal(raw, &meta); err != nil {
		return false, "", err
	}
	return true, meta.Labels[api.LabelManagedBy], nil
}

// maxReviewed is the maximum number of namespaces in which permissions are checked.
const maxReviewed = 50

// forbidden returns the permissions for steps of the plan that the user lacks, a line for each resource.
func (c *Cluster) forbidden(ctx context.Context, p plan.Plan) ([]string, error) {
	namespaces := namespacesOf(p)
	var out []string
	for _, what := range []string{"namespaces", "services", "deployments", "statefulsets", "daemonsets", endpointSlices} {
		missing, err := c.deniedIn(ctx, what, namespaces[what])
		if err != nil {
			return nil, err
		}
		if len(missing) > 0 {
			out = append(out, fmt.Sprintf("%s %s in %s", needed(what).Verb, what, strings.Join(missing, ", ")))
		}
	}
	return out, nil
}

// namespacesOf returns the namespaces in which steps of the plan patch, or list, resources, by the resource.
func namespacesOf(p plan.Plan) map[string][]string {
	namespaces := map[string][]string{}
	note := func(what, namespace string) {
		if !slices.Contains(namespaces[what], namespace) {
			namespaces[what] = append(namespaces[what], namespace)
		}
	}
	for _, s := range p.Services {
		if s.Wave == 0 || s.Way == plan.WayMove {
			continue
		}
		if s.OptIn {
			note("namespaces", s.Namespace)
		}
		note("services", s.Namespace)
		note(endpointSlices, s.Namespace)
		for _, w := range s.Workloads {
			if kind, _, _ := strings.Cut(w, "/"); api.Restartable(kind) {
				note(strings.ToLower(kind)+"s", s.Namespace)
			}
		}
	}
	for _, s := range p.Services {
		if s.Guard != nil && s.Guard.Wave > 0 {
			note("services", s.Namespace)
		}
	}
	for _, client := range p.Clients { // those of other namespaces need not be changed together with the Services
		beside := slices.ContainsFunc(p.Services, func(s plan.Service) bool { return s.Namespace == client.Namespace })
		if kind, _, _ := strings.Cut(client.Workload, "/"); client.Wave > 0 && beside && api.Restartable(kind) {
			if client.OptIn {
				note("namespaces", client.Namespace)
			}
			note(strings.ToLower(kind)+"s", client.Namespace)
		}
	}
	return namespaces
}

// endpointSlices are read after each step, which checks that no port loses its endpoints.
const endpointSlices = "endpointslices"

// needed returns the permission for a resource, without a namespace.
func needed(resource string) authorizationv1.ResourceAttributes {
	switch resource {
	case "services", "namespaces":
		return authorizationv1.ResourceAttributes{Verb: "patch", Resource: resource}
	case endpointSlices:
		return authorizationv1.ResourceAttributes{Verb: "list", Group: discoveryv1.GroupName, Resource: resource}
	}
	return authorizationv1.ResourceAttributes{Verb: "patch", Group: "apps", Resource: resource}
}

// deniedIn returns the namespaces in which the user lacks the permission for a resource.
func (c *Cluster) deniedIn(ctx context.Context, resource string, namespaces []string) (missing []string, err error) {
	if len(namespaces) == 0 {
		return nil, nil
	}
	permission := needed(resource)
	if everywhere, err := Allowed(ctx, c.Client, permission); everywhere || err != nil {
		return nil, err
	}
	for i, namespace := range namespaces {
		if i == maxReviewed {
			return append(missing, fmt.Sprintf("(%d more were not checked)", len(namespaces)-i)), nil
		}
		if permission.Namespace = namespace; resource == "namespaces" {
			permission.Name = namespace
		}
		allowed, err := Allowed(ctx, c.Client, permission)
		if err != nil {
			return nil, err
		}
		if !allowed {
			missing = append(missing, namespace)
		}
	}
	return missing, nil
}
