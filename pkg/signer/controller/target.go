package controller

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/servingcert/servingcert/pkg/api"
)

// A target is the subject of one reconcile: a Secret, or the Services of a namespace that have
// none. The latter name no Secret, or an empty name, which is refused. In the queue, a target
// without a Secret is a request without a name; only this file interprets that.
type target struct {
	types.NamespacedName // of the Secret; without a name if there is none
	withoutSecret        bool
}

// targetOf returns the target of a request.
func targetOf(r reconcile.Request) target { return target{r.NamespacedName, r.Name == ""} }

// targetOfService returns the target whose reconcile sets the condition of a Service; false if
// the Service neither requests a certificate nor has condition Ready.
func targetOfService(svc *corev1.Service) (t target, ok bool) {
	name, asks := api.Wants(svc)
	t = targetOf(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: svc.Namespace, Name: name}})
	return t, asks || isUnnamed(svc)
}

// isUnnamed reports whether a Service names no Secret, and has pods that make their keys or
// condition Ready.
func isUnnamed(svc *corev1.Service) bool {
	_, names := api.Wants(svc)
	return !names && (api.WantsPodKeys(svc) || api.Condition(svc, api.ConditionReady) != nil)
}

func (t target) request() reconcile.Request {
	return reconcile.Request{NamespacedName: t.NamespacedName}
}
