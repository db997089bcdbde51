package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/facts"
	"github.com/servingcert/servingcert/pkg/trust"
	"github.com/servingcert/servingcert/pkg/trust/controller/target"
)

// policies are the BackendTLSPolicies, which a keeper keeps where the API server has the kind.
type policies struct {
	mgr    manager.Manager
	cfg    Config
	prober prober
	events eventWriter

	state   trust.KindState
	message string
}

// find is for keeper.find.
func (p *policies) find(ctx context.Context) (kept, trust.KindState, string) {
	reads := policyReads()
	state, message := kindStateOf(p.prober.probe(ctx, reads))
	return kept{
		reads:   reads,
		watches: policyWatches,
		reconciler: func(c client.Reader) reconcile.Reconciler {
			return &policyReconciler{reader: c, writer: p.mgr.GetClient(), events: p.events, why: map[types.NamespacedName]string{}}
		},
		filled:     func(ctx context.Context, _ client.Reader) { p.report(ctx, trust.KindWatched, "") },
		definition: "backendtlspolicies." + trust.BackendTLSPolicy.Group,
	}, state, message
}

// report logs a state that is new, and sends what an administrator has to do as an event.
func (p *policies) report(ctx context.Context, state trust.KindState, message string) {
	var others []string
	if state == trust.KindAbsent {
		if others = p.otherVersions(); len(others) > 0 {
			message = fmt.Sprintf("the API server has kind BackendTLSPolicy of %s in %s only: version %s is needed, which Gateway API has from 1.4 on",
				trust.BackendTLSPolicy.Group, strings.Join(others, ", "), trust.BackendTLSPolicy.Version)
		}
	}
	if state == p.state && message == p.message {
		return
	}
	p.state, p.message = state, message
	logger := log.FromContext(ctx).WithValues("message", message)
	switch state {
	case trust.KindWatched:
		logger.Info("keeping BackendTLSPolicies")
	case trust.KindAbsent:
		logger.Info("BackendTLSPolicies are not served by the API server, and are waited for")
		if len(others) > 0 {
			p.events.policiesUnsupported(p.cfg.Namespace, message)
		}
	case trust.KindRefused:
		logger.Info("cannot watch what BackendTLSPolicies are made of: grant the permission, or do not set --backend-tls-policies")
		p.events.policiesRefused(p.cfg.Namespace, message)
	default:
		logger.Info("API server did not answer whether BackendTLSPolicies can be watched")
	}
}

// otherVersions returns the versions of the kind that are served and not understood.
func (p *policies) otherVersions() []string {
	mappings, err := p.mgr.GetRESTMapper().RESTMappings(trust.BackendTLSPolicy.GroupKind())
	if err != nil && !meta.IsNoMatchError(err) {
		return nil // it is asked again
	}
	var versions []string
	for _, m := range mappings {
		if v := m.GroupVersionKind.Version; v != trust.BackendTLSPolicy.Version {
			versions = append(versions, v)
		}
	}
	slices.Sort(versions)
	return versions
}

// policyReads are the kind itself, which may be absent, Services and the namespaces that are
// opted in.
func policyReads() []target.Read {
	policy := &unstructured.Unstructured{}
	policy.SetGroupVersionKind(trust.BackendTLSPolicy)
	targets := func(obj client.Object) []string { return trust.PolicyTargets(obj.(*unstructured.Unstructured)) }
	return []target.Read{
		{Object: policy, By: cache.ByObject{Transform: stripped(stripPolicy)}, Index: targets},
		{Object: facts.Metadata("Service"), By: cache.ByObject{Transform: stripped(stripPolicyService, stripMetadata)}},
		{Object: facts.Metadata("Namespace"), By: cache.ByObject{
			Label: labels.SelectorFromSet(labels.Set{api.LabelInject: api.InjectEnabled}), Transform: stripped(func(obj client.Object) { obj.SetAnnotations(nil) }, stripMetadata),
		}},
	}
}

// stripMetadata removes what nothing here reads of any object.
func stripMetadata(obj client.Object) {
	obj.SetManagedFields(nil)
	obj.SetLabels(nil)
	obj.SetOwnerReferences(nil)
	obj.SetFinalizers(nil)
}

func stripped(strips ...func(client.Object)) toolscache.TransformFunc {
	return func(in any) (any, error) {
		if obj, ok := in.(client.Object); ok { // and not a tombstone
			for _, strip := range strips {
				strip(obj)
			}
		}
		return in, nil
	}
}

// policyWatches looks at a Service when it, a policy for it or with its name, or its
// namespace changes.
func policyWatches(c cache.Cache) []source.Source {
	one := func(namespace, name string) reconcile.Request {
		return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
	}
	policy := &unstructured.Unstructured{}
	policy.SetGroupVersionKind(trust.BackendTLSPolicy)
	ofPolicy := func(_ context.Context, obj *unstructured.Unstructured) []reconcile.Request {
		requests := []reconcile.Request{one(obj.GetNamespace(), obj.GetName())}
		for _, name := range trust.PolicyTargets(obj) {
			requests = append(requests, one(obj.GetNamespace(), name))
		}
		return requests
	}
	ofNamespace := func(ctx context.Context, namespace *metav1.PartialObjectMetadata) []reconcile.Request {
		services := &metav1.PartialObjectMetadataList{}
		services.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ServiceList"))
		if err := c.List(ctx, services, client.InNamespace(namespace.Name), client.UnsafeDisableDeepCopy); err != nil { // only if ctx has ended: the cache is in memory
			return nil
		}
		var requests []reconcile.Request
		for _, s := range services.Items {
			if len(s.Annotations) > 0 {
				requests = append(requests, one(s.Namespace, s.Name))
			}
		}
		return requests
	}
	return []source.Source{
		source.Kind(c, policy, handler.TypedEnqueueRequestsFromMapFunc(ofPolicy)),
		source.Kind(c, facts.Metadata("Service"), &handler.TypedEnqueueRequestForObject[*metav1.PartialObjectMetadata]{}),
		source.Kind(c, facts.Metadata("Namespace"), handler.TypedEnqueueRequestsFromMapFunc(ofNamespace)),
	}
}
