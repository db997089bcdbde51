package collect

import (
	"context"
	"fmt"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/cluster"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/doctor"
)

// maxReviewed is the maximum number of namespaces in which the permission to create pods is checked.
const maxReviewed = 20

// dryRun creates a pod with dryRun=All in a namespace that is opted in.
func (g *gatherer) dryRun(ctx context.Context, i *doctor.Installation, namespaces []string) {
	namespace, err := g.where(ctx, namespaces)
	if err != nil {
		g.failed("the permission to create pods", err, doctor.WebhookReached)
		return
	}
	if namespace == "" && g.opts.CreateNamespace {
		if namespace, err = g.ownNamespace(ctx); err != nil {
			g.failed("a namespace for the dry run", err, doctor.WebhookReached)
			return
		}
		defer g.deleteNamespace(ctx, namespace)
	}
	if namespace != "" {
		i.DryRun = g.try(ctx, namespace)
	}
}

// where returns the namespace for the dry run, or "".
func (g *gatherer) where(ctx context.Context, namespaces []string) (string, error) {
	if g.opts.DryRunNamespace != "" {
		return g.opts.DryRunNamespace, nil
	}
	for _, ns := range namespaces[:min(len(namespaces), maxReviewed)] {
		allowed, err := cluster.Allowed(ctx, g.client, authorizationv1.ResourceAttributes{Verb: "create", Resource: "pods", Namespace: ns})
		if err != nil {
			return "", err
		}
		if allowed {
			return ns, nil
		}
	}
	return "", nil
}

// try creates the pod.
func (g *gatherer) try(ctx context.Context, namespace string) *doctor.DryRun {
	d := &doctor.DryRun{Namespace: namespace}
	pod, err := g.client.CoreV1().Pods(namespace).Create(ctx, triedPod(), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		d.Refusal = err.Error()
		return d
	}
	d.Created = pod
	return d
}

// triedPod returns a pod that the webhook injects in every opted-in namespace, because it names
// a Secret. It meets the restricted Pod Security Standard and most quotas.
func triedPod() *corev1.Pod {
	yes, no := true, false
	user := int64(65532)
	small := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("16Mi")}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: "servingcert-doctor-",
			Annotations:  map[string]string{api.AnnotationSecretName: "servingcert-doctor", api.AnnotationMode: string(api.ModeMount)},
		},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken: &no,
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: &yes, RunAsUser: &user,
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{
				Name: "doctor", Image: "servingcert.invalid/doctor", // never pulled
				Ports:     []corev1.ContainerPort{{ContainerPort: 8443}},
				Resources: corev1.ResourceRequirements{Requests: small, Limits: small},
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: &no,
					Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
			}},
		},
	}
}

// patience is the timeout for the ServiceAccount of a new namespace.
const patience = 10 * time.Second

// ownNamespace creates an opted-in namespace, and waits until it accepts pods.
func (g *gatherer) ownNamespace(ctx context.Context) (string, error) {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "servingcert-doctor-", Labels: map[string]string{api.LabelInject: api.InjectEnabled}}}
	ns, err := g.client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	err = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		_, err := g.client.CoreV1().ServiceAccounts(ns.Name).Get(ctx, "default", metav1.GetOptions{})
		return err == nil, nil
	})
	if err != nil {
		g.deleteNamespace(ctx, ns.Name)
		return "", fmt.Errorf("namespace %s has no ServiceAccount default after %s", ns.Name, patience)
	}
	return ns.Name, nil
}

// deleteNamespace deletes the namespace of ownNamespace, even if the command was interrupted.
func (g *gatherer) deleteNamespace(ctx context.Context, name string) {
	if !strings.HasPrefix(name, "servingcert-doctor-") {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	if err := g.client.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		g.failed("Namespace "+name+", which was created for the dry run, is left: delete it; it", err)
	}
}
