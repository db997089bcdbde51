package harness

import (
	"context"
	"errors"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Remove deletes objects, which need not be there, waits until they are gone, and until the API
// server has forgotten what they were, admission policies or rights: otherwise the next test on
// the control plane would meet them.
func Remove[T client.Object](ctx context.Context, c client.Client, objects ...T) error {
	policies, rights := false, false
	for _, obj := range objects {
		gvk, err := c.GroupVersionKindFor(obj)
		if err != nil {
			return err
		}
		if err := client.IgnoreNotFound(c.Delete(ctx, obj)); err != nil {
			return err
		}
		policies = policies || gvk.Kind == "ValidatingAdmissionPolicy" || gvk.Kind == "ValidatingAdmissionPolicyBinding"
		rights = rights || gvk.Group == rbacv1.GroupName
	}
	for _, obj := range objects {
		if err := awaitGone(ctx, c, obj); err != nil {
			return err
		}
	}
	if policies {
		if err := PoliciesInForce(ctx, c); err != nil {
			return err
		}
	}
	if rights {
		return RightsInForce(ctx, c)
	}
	return nil
}

func awaitGone(ctx context.Context, c client.Client, obj client.Object) error {
	gvk, err := c.GroupVersionKindFor(obj)
	if err != nil {
		return err
	}
	return Await(ctx, func() error {
		left := &unstructured.Unstructured{}
		left.SetGroupVersionKind(gvk)
		if err := c.Get(ctx, client.ObjectKeyFromObject(obj), left); err != nil {
			return client.IgnoreNotFound(err)
		}
		return errors.Join(fmt.Errorf("%s %s is still there", gvk.Kind, left.GetName()), remind(ctx, c, left))
	})
}

// remind changes a CustomResourceDefinition whose deletion the API server has forgotten. It
// cannot list the instances while their storage is made anew, because the definition was
// changed just before. If it tries again before its cache has the condition in which it said
// so, it meets a conflict, leaves the definition to the change that must have come between, and
// passes over that change, which is its own (crd_finalizer.go of Kubernetes 1.36; seen twice in
// 573 deletions on a busy machine). It would look again five minutes later.
func remind(ctx context.Context, c client.Client, obj *unstructured.Unstructured) error {
	if obj.GetKind() != "CustomResourceDefinition" {
		return nil
	}
	conditions, _, err := unstructured.NestedSlice(obj.Object, "status", "conditions")
	for _, condition := range conditions {
		if said := condition.(map[string]any); said["type"] == "Terminating" && said["reason"] == "InstanceDeletionFailed" {
			patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"reminded-at":%q}}}`, obj.GetResourceVersion())
			return client.IgnoreNotFound(c.Patch(ctx, obj, client.RawPatch(types.MergePatchType, patch)))
		}
	}
	return err
}

// RightsInForce waits until the API server applies every role and binding that exists, and none
// that was deleted. It watches each of the four kinds, whose changes arrive in order. So one more
// of each, made last, is waited for.
func RightsInForce(ctx context.Context, c client.Client) (err error) {
	meta := metav1.ObjectMeta{Name: "in-force-" + utilrand.String(6)}
	inNamespace := metav1.ObjectMeta{Name: meta.Name, Namespace: metav1.NamespaceDefault}
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: meta.Name}}
	ref := func(kind string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: meta.Name}
	}
	markers := []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{NonResourceURLs: []string{"/in-force"}, Verbs: []string{"get"}}}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: ref("ClusterRole"), Subjects: subjects},
		&rbacv1.Role{ObjectMeta: inNamespace, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get"}}}},
		&rbacv1.RoleBinding{ObjectMeta: inNamespace, RoleRef: ref("Role"), Subjects: subjects},
	}
	defer func() {
		for _, obj := range markers {
			err = errors.Join(err, client.IgnoreNotFound(c.Delete(ctx, obj)))
		}
	}()
	for _, obj := range markers {
		if err := c.Create(ctx, obj); err != nil {
			return err
		}
	}
	for _, asked := range []authorizationv1.SubjectAccessReviewSpec{
		{NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: "/in-force", Verb: "get"}},
		{ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: metav1.NamespaceDefault, Resource: "configmaps", Verb: "get"}},
	} {
		asked.User = meta.Name
		if err := Await(ctx, func() error {
			review := &authorizationv1.SubjectAccessReview{Spec: asked}
			err := c.Create(ctx, review)
			if err == nil && !review.Status.Allowed {
				err = errors.New("the API server does not go by the roles and bindings yet")
			}
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}
