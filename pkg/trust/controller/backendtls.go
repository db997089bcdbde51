package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/facts"
	"github.com/servingcert/servingcert/pkg/trust"
	"github.com/servingcert/servingcert/pkg/trust/controller/target"
)

// policyReconciler keeps the BackendTLSPolicies of the Services that ask for one. A policy
// has the name of its Service.
type policyReconciler struct {
	reader client.Reader // the cache that policyReads fills
	writer client.Writer
	events eventWriter

	mu  sync.Mutex
	why map[types.NamespacedName]string // what was reported of a Service last
}

// Reconcile looks at one Service.
func (r *policyReconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	s, err := r.gather(ctx, req.NamespacedName)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("read from the cache: %w", err)
	}
	d := trust.DecideBackendTLS(s)
	err = r.act(ctx, s, d)
	switch {
	case apierrors.IsAlreadyExists(err), apierrors.IsConflict(err), isGone(err):
		// The cache was behind; what it missed is on its way, and this is for the case that it comes to nothing.
		return reconcile.Result{RequeueAfter: time.Second}, nil
	case err != nil:
		return reconcile.Result{}, err
	}
	r.report(ctx, req.NamespacedName, s, d)
	return reconcile.Result{}, nil
}

func (r *policyReconciler) gather(ctx context.Context, key types.NamespacedName) (trust.BackendTLS, error) {
	var s trust.BackendTLS
	service, policy, namespace := facts.Metadata("Service"), &unstructured.Unstructured{}, facts.Metadata("Namespace")
	policy.SetGroupVersionKind(trust.BackendTLSPolicy)
	exists := func(key types.NamespacedName, obj client.Object) (bool, error) {
		err := r.reader.Get(ctx, key, obj)
		return err == nil, client.IgnoreNotFound(err)
	}
	found, err := exists(key, service)
	if err != nil || !found || service.DeletionTimestamp != nil {
		return s, err
	}
	s.Service = service
	if found, err = exists(key, policy); err != nil {
		return s, err
	}
	if found {
		s.Policy = policy
	}
	if s.OptedIn, err = exists(types.NamespacedName{Name: key.Namespace}, namespace); err != nil {
		return s, err
	}
	var all unstructured.UnstructuredList
	all.SetGroupVersionKind(trust.BackendTLSPolicy)
	if err := r.reader.List(ctx, &all, client.InNamespace(key.Namespace), client.MatchingFields{target.IndexRequested: key.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return s, err
	}
	for _, other := range all.Items {
		if other.GetName() != key.Name {
			s.Others = append(s.Others, other.GetName())
		}
	}
	return s, nil
}

func (r *policyReconciler) act(ctx context.Context, s trust.BackendTLS, d trust.PolicyDecision) error {
	switch d.Act {
	case trust.PolicyCreate: // and not apply, which would take over what somebody else made meanwhile
		return r.writer.Create(ctx, trust.NewPolicy(s.Service), client.FieldOwner(trust.FieldManager))
	case trust.PolicyUpdate:
		patch, err := json.Marshal(trust.PolicyPatch(s.Policy, s.Service))
		if err != nil {
			return err
		}
		return r.writer.Patch(ctx, s.Policy, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(trust.FieldManager))
	case trust.PolicyDelete:
		uid, version := s.Policy.GetUID(), s.Policy.GetResourceVersion()
		return r.writer.Delete(ctx, s.Policy, client.Preconditions{UID: &uid, ResourceVersion: &version})
	}
	return nil
}

// report logs what was done, and says once on the Service why it has no policy.
func (r *policyReconciler) report(ctx context.Context, key types.NamespacedName, s trust.BackendTLS, d trust.PolicyDecision) {
	if d.Act != trust.PolicyStays {
		log.FromContext(ctx).Info("wrote a BackendTLSPolicy", "act", d.Act)
	}
	r.mu.Lock()
	before := r.why[key]
	if r.why[key] = d.Why; d.Why == "" {
		delete(r.why, key)
	}
	r.mu.Unlock()
	if d.Why != "" && d.Why != before {
		log.FromContext(ctx).Info("a Service that asks for a BackendTLSPolicy has none", "why", d.Why)
		r.events.policyNotMade(s.Service, d)
	}
}

// stripPolicyService leaves of a Service what is read here.
func stripPolicyService(obj client.Object) {
	value, ok := obj.GetAnnotations()[api.AnnotationBackendTLSPolicy]
	obj.SetAnnotations(nil)
	if ok {
		obj.SetAnnotations(map[string]string{api.AnnotationBackendTLSPolicy: api.TruncateAnnotation(api.AnnotationBackendTLSPolicy, value)})
	}
}

// stripPolicy leaves of a policy what is read here.
func stripPolicy(obj client.Object) { trust.StripPolicy(obj.(*unstructured.Unstructured)) }
