package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
)

// unlabelled is a namespace of the attacker that is not opted in.
const unlabelled = "evil-unlabelled"

// newEvil makes the tenant that attacks.
func (w *world) newEvil(ctx context.Context) (*tenant, error) {
	t, err := w.newTenant(ctx, "evil")
	if err != nil {
		return nil, err
	}
	return t, w.addUnlabelled(ctx, t)
}

// addUnlabelled makes that namespace. The tenant has ClusterRole admin in it, and may write the
// status of Services, as controllers of load balancers may.
func (w *world) addUnlabelled(ctx context.Context, t *tenant) error {
	_, err := w.Clientset.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: unlabelled}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	meta := metav1.ObjectMeta{Namespace: unlabelled, Name: "tenant"}
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: t.namespace, Name: "tenant"}}
	if _, err := w.Clientset.RbacV1().Roles(unlabelled).Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"services/status"}, Verbs: []string{"patch", "update"}},
	}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	for name, kind := range map[string]string{"admin": "ClusterRole", "tenant": "Role"} {
		_, err := w.Clientset.RbacV1().RoleBindings(unlabelled).Create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: unlabelled, Name: name}, Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name},
		}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
	}
	return nil
}

// forgedConditions: 20 times a second, a condition says that a Secret, or each pod, has a
// certificate of a Service, and a Secret with the signer's label is there to be filled. Whatever is
// in it later is a breach.
func forgedConditions(ctx context.Context, a *attacker) {
	const keep = 50
	services, secrets := a.clientset.CoreV1().Services(unlabelled), a.clientset.CoreV1().Secrets(unlabelled)
	a.repeat(ctx, 50*time.Millisecond, func(i int) error {
		name := a.nth(i, keep)
		plain := serviceOf(name, evilPort)
		plain.Annotations = nil
		if i%2 == 1 {
			plain.Annotations = map[string]string{api.AnnotationKeySource: string(api.KeySourcePod)}
		}
		svc, err := services.Create(ctx, plain, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			svc, err = services.Get(ctx, name, metav1.GetOptions{})
		}
		if err != nil {
			return err
		}
		secret := labelled(name, nil, nil)
		secret.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: svc.Name, UID: svc.UID}}
		if old, err := secrets.Get(ctx, name, metav1.GetOptions{}); err == nil && len(old.Data[corev1.TLSCertKey]) > 0 {
			a.breach("Secret %s/%s has a certificate", unlabelled, name)
		}
		if err := secrets.Delete(ctx, name, atOnce()); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		if _, err := secrets.Create(ctx, secret, metav1.CreateOptions{}); err != nil {
			return err
		}
		patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": forgedReady(name, i).Both()}})
		if err != nil {
			return err
		}
		_, err = services.Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		if err == nil {
			a.breach("condition Ready of Service %s/%s was forged", unlabelled, name)
		} else if !strings.Contains(err.Error(), "servingcert-conditions") {
			return errors.Join(errors.New("not refused by the policy"), err)
		}
		return err
	})
}

// forgedReady is what the signer would say: of a Secret, or of keys of pods.
func forgedReady(name string, i int) *state.Condition {
	host := name + "." + unlabelled + ".svc"
	c := metav1.Condition{Type: api.ConditionReady, Status: metav1.ConditionTrue, Reason: "Issued", LastTransitionTime: metav1.Now(), Message: host}
	if i%2 == 1 {
		c.Reason = api.ReasonPodKeys
		return state.Say(c, state.Ready{Names: []string{host}, Proof: strings.Repeat("A", 95)})
	}
	return state.Say(c, state.Ready{Secret: name, Request: "1", Leaf: strings.Repeat("0a", 32)})
}

// breach remembers something that an attack got and must not get.
func (a *attacker) breach(format string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.breaches++
	a.lastBreach = fmt.Sprintf(format, args...)
}
