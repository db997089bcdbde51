package collect

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/cluster"
	"github.com/servingcert/servingcert/deploy"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/doctor"
)

// platform reads the prerequisites of an installation.
func (g *gatherer) platform(ctx context.Context) error {
	release, err := release(g.opts.System)
	if err != nil {
		return err
	}
	p := &doctor.Platform{Namespace: g.opts.System}
	g.facts.Platform = p
	version, err := g.client.Discovery().ServerVersion()
	if err != nil {
		return fmt.Errorf("read the version of the API server: %w", err)
	}
	p.Version = version.GitVersion
	p.Major, p.Minor = number(version.Major), number(version.Minor)
	p.Policies = g.serves("admissionregistration.k8s.io", "v1", "validatingadmissionpolicies")
	p.PodCertificates = g.serves("certificates.k8s.io", "", "podcertificaterequests")
	p.ClusterTrustBundles = g.serves("certificates.k8s.io", "", "clustertrustbundles")
	if err := g.rights(ctx, p, release); err != nil {
		g.failed("the permissions of the user", err, doctor.InstallRights)
	}
	g.serviceCA(ctx, p)
	quotas, err := g.client.CoreV1().ResourceQuotas(g.opts.System).List(ctx, metav1.ListOptions{})
	if err != nil {
		g.failed("ResourceQuotas in "+g.opts.System, err, doctor.Quota)
	} else {
		p.Quotas = quotas.Items
	}
	ranges, err := g.client.CoreV1().LimitRanges(g.opts.System).List(ctx, metav1.ListOptions{})
	if err != nil {
		g.failed("LimitRanges in "+g.opts.System, err, doctor.LimitRanges)
	} else {
		p.LimitRanges = ranges.Items
	}
	return podsOf(p, release)
}

// number returns the number at the start of a text: minor versions may end in "+".
func number(text string) int {
	end := strings.IndexFunc(text, func(c rune) bool { return c < '0' || c > '9' })
	if end >= 0 {
		text = text[:end]
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	return n
}

// podsOf adds the pods of the release's Deployments.
func podsOf(p *doctor.Platform, release []*unstructured.Unstructured) error {
	for _, obj := range release {
		if obj.GetKind() != "Deployment" {
			continue
		}
		var d appsv1.Deployment
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, &d); err != nil {
			return fmt.Errorf("%s of the release: %w", obj.GetName(), err)
		}
		for range *d.Spec.Replicas {
			p.Pods = append(p.Pods, d.Spec.Template.Spec)
		}
	}
	return nil
}

// rights reads the permissions for an installation that the user lacks.
func (g *gatherer) rights(ctx context.Context, p *doctor.Platform, release []*unstructured.Unstructured) error {
	var asked []authorizationv1.ResourceAttributes
	for _, obj := range release {
		resource, namespaced, err := g.resource(obj.GroupVersionKind())
		if err != nil {
			continue // another check reports kinds that are not served
		}
		for _, verb := range []string{"get", "create", "patch"} {
			a := authorizationv1.ResourceAttributes{Verb: verb, Group: resource.Group, Resource: resource.Resource}
			if namespaced {
				a.Namespace = g.opts.System
			}
			if !slices.Contains(asked, a) {
				asked = append(asked, a)
			}
		}
	}
	for _, a := range asked {
		allowed, err := cluster.Allowed(ctx, g.client, a)
		if err != nil {
			return err
		}
		if !allowed {
			p.Denied = append(p.Denied, a.Verb+" "+schema.GroupResource{Group: a.Group, Resource: a.Resource}.String())
		}
	}
	p.Escalates = true
	for _, verb := range []string{"escalate", "bind"} {
		allowed, err := cluster.Allowed(ctx, g.client, authorizationv1.ResourceAttributes{Verb: verb, Group: "rbac.authorization.k8s.io", Resource: "clusterroles"})
		if err != nil {
			return err
		}
		p.Escalates = p.Escalates && allowed
	}
	return nil
}

// serviceCA looks for OpenShift's service-ca.
func (g *gatherer) serviceCA(ctx context.Context, p *doctor.Platform) {
	const name = api.OpenShiftDeployment
	d, err := g.client.AppsV1().Deployments(api.OpenShiftNamespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		g.failed("Deployment "+api.OpenShiftNamespace+"/"+name, err, doctor.ServiceCARuns)
	case d.Status.Replicas > 0:
		p.ServiceCA = "Deployment " + api.OpenShiftNamespace + "/" + name
	}
}

// release returns the objects of this version's manifest, with servingcert in the namespace.
func release(namespace string) ([]*unstructured.Unstructured, error) {
	objects, err := deploy.Objects()
	if err != nil || namespace == api.DefaultNamespace {
		return objects, err
	}
	for _, obj := range objects {
		data, err := obj.MarshalJSON()
		if err != nil {
			return nil, err
		}
		moved := strings.ReplaceAll(string(data), api.DefaultNamespace, namespace)
		if err := obj.UnmarshalJSON([]byte(moved)); err != nil {
			return nil, err
		}
	}
	return objects, nil
}
