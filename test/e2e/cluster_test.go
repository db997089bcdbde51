//go:build e2e

package e2e

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/deploy"
	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/hack/node"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
)

//go:embed manifests
var manifests embed.FS

const owner = "e2e"

// cluster is a cluster with nodes.
type cluster struct {
	kubeconfig string        // as in $KUBECONFIG
	admin      client.Client // reads live
	clients    kubernetes.Interface
	// certificates is a client for the version that the API server serves.
	certificates controlplane.Certificates
	writes       *writes
	tools        tools
	scraper      string // token with permission to read metrics
	// machine is the node on this machine; nil in the user's cluster, where only the API is accessible.
	machine *node.Node
}

// connect returns the cluster of a kubeconfig, or of a list as in $KUBECONFIG. Its user must be an
// administrator.
func connect(ctx context.Context, kubeconfig string) (*cluster, error) {
	rules := &clientcmd.ClientConfigLoadingRules{Precedence: filepath.SplitList(kubeconfig)}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, err
	}
	config.QPS = -1 // no client-side limit
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), apiregistrationv1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	admin, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, err
	}
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	certificates, err := controlplane.CertificatesOf(ctx, config)
	if err != nil {
		return nil, err
	}
	return &cluster{kubeconfig: kubeconfig, admin: admin, clients: clients, certificates: certificates}, nil
}

// objectsOf returns the objects in a manifest, with texts replaced: pairs of old and new.
func objectsOf(manifest string, oldNew ...string) ([]*unstructured.Unstructured, error) {
	data, err := manifests.ReadFile(path.Join("manifests", manifest))
	if err != nil {
		return nil, err
	}
	objects, err := deploy.Decode([]byte(strings.NewReplacer(oldNew...).Replace(string(data))))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", manifest, err)
	}
	return objects, nil
}

// apply applies one of the manifests.
func (c *cluster) apply(t *testing.T, manifest string, oldNew ...string) {
	t.Helper()
	objects, err := objectsOf(manifest, oldNew...)
	require.NoError(t, err)
	for _, obj := range objects {
		// A pod in an opted-in namespace is rejected while no webhook answers.
		eventually(t, settling, "apply "+manifest, func(ctx context.Context) error {
			return c.admin.Apply(ctx, client.ApplyConfigurationFromUnstructured(obj.DeepCopy()), client.FieldOwner(owner))
		})
	}
}

// removeScenes deletes the objects in the manifests. It does not wait until namespaces are removed.
func (c *cluster) removeScenes(ctx context.Context) error {
	files, err := manifests.ReadDir("manifests")
	errs := []error{err}
	for _, file := range files {
		objects, err := objectsOf(file.Name())
		errs = append(errs, err)
		for _, obj := range objects {
			// The kinds may not exist if a scene was left out.
			if err := client.IgnoreNotFound(c.admin.Delete(ctx, obj)); !meta.IsNoMatchError(err) {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

func (c *cluster) service(ctx context.Context, namespace, name string) (*corev1.Service, error) {
	svc := &corev1.Service{}
	return svc, c.admin.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, svc)
}

// pods returns the pods that a Service selects, without terminating ones.
func (c *cluster) pods(ctx context.Context, namespace string, selector map[string]string) ([]corev1.Pod, error) {
	list := &corev1.PodList{}
	if err := c.admin.List(ctx, list, client.InNamespace(namespace), client.MatchingLabelsSelector{Selector: labels.SelectorFromSet(selector)}); err != nil {
		return nil, err
	}
	var staying []corev1.Pod
	for _, pod := range list.Items {
		if pod.DeletionTimestamp == nil {
			staying = append(staying, pod)
		}
	}
	return staying, nil
}

func isReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// rolledOut returns nil if all pods of the namespace's Deployments and StatefulSets are current and
// ready; with a name, only that one is checked.
func (c *cluster) rolledOut(ctx context.Context, namespace, name string) error {
	var errs []error
	deployments := &appsv1.DeploymentList{}
	if err := c.admin.List(ctx, deployments, client.InNamespace(namespace)); err != nil {
		return err
	}
	for _, d := range deployments.Items {
		s := d.Status
		if (name == "" || name == d.Name) && (s.ObservedGeneration < d.Generation || s.UpdatedReplicas != *d.Spec.Replicas || s.ReadyReplicas != *d.Spec.Replicas || s.Replicas != *d.Spec.Replicas) {
			errs = append(errs, fmt.Errorf("Deployment %s/%s: %d of %d pods are updated, %d are ready, %d exist: %w",
				namespace, d.Name, s.UpdatedReplicas, *d.Spec.Replicas, s.ReadyReplicas, s.Replicas, c.whyNotReady(ctx, namespace, d.Spec.Selector.MatchLabels)))
		}
	}
	sets := &appsv1.StatefulSetList{}
	if err := c.admin.List(ctx, sets, client.InNamespace(namespace)); err != nil {
		return err
	}
	for _, d := range sets.Items {
		if (name == "" || name == d.Name) && d.Status.ReadyReplicas != *d.Spec.Replicas {
			errs = append(errs, fmt.Errorf("StatefulSet %s/%s: %d of %d pods are ready: %w",
				namespace, d.Name, d.Status.ReadyReplicas, *d.Spec.Replicas, c.whyNotReady(ctx, namespace, d.Spec.Selector.MatchLabels)))
		}
	}
	return errors.Join(errs...)
}

// whyNotReady returns the reason that the kubelet or the scheduler reports for pods that are not ready.
func (c *cluster) whyNotReady(ctx context.Context, namespace string, selector map[string]string) error {
	pods, err := c.pods(ctx, namespace, selector)
	if err != nil {
		return err
	}
	for i := range pods {
		pod := &pods[i]
		if isReady(pod) {
			continue
		}
		for _, s := range pod.Status.ContainerStatuses {
			if w := s.State.Waiting; w != nil {
				return fmt.Errorf("pod %s: %s %s", pod.Name, w.Reason, w.Message)
			}
			if x := s.State.Terminated; x != nil {
				return fmt.Errorf("pod %s: ended with code %d: %s %s", pod.Name, x.ExitCode, x.Reason, x.Message)
			}
		}
		for _, cond := range pod.Status.Conditions {
			if cond.Type == corev1.PodScheduled && cond.Status == corev1.ConditionFalse {
				return fmt.Errorf("pod %s: %s: %s", pod.Name, cond.Reason, cond.Message)
			}
		}
		return fmt.Errorf("pod %s is %s and not ready", pod.Name, pod.Status.Phase)
	}
	return errors.New("no pod has a reason")
}

// currentLeaf returns the leaf in the condition of a Service, which is that of its Secret.
func (c *cluster) currentLeaf(ctx context.Context, namespace, name string) (string, error) {
	svc, err := c.service(ctx, namespace, name)
	if err != nil {
		return "", err
	}
	leaf, ok := state.LeafOf(svc)
	if !ok {
		return "", fmt.Errorf("Service %s/%s has no condition with a leaf: %s", namespace, name, conditionText(svc, api.ConditionReady))
	}
	return leaf, nil
}

// conditionText describes a condition of a Service, in one line.
func conditionText(svc *corev1.Service, conditionType string) string {
	cond := api.Condition(svc, conditionType)
	if cond == nil {
		return conditionType + " is not set"
	}
	return fmt.Sprintf("%s=%s, %s: %s", cond.Type, cond.Status, cond.Reason, cond.Message)
}

// hasCondition returns nil if the Service's condition has the status and the reason.
func (c *cluster) hasCondition(ctx context.Context, namespace, name, conditionType, status, reason string) error {
	svc, err := c.service(ctx, namespace, name)
	if err != nil {
		return err
	}
	cond := api.Condition(svc, conditionType)
	if cond == nil || string(cond.Status) != status || cond.Reason != reason {
		return fmt.Errorf("Service %s/%s: %s; want %s, %s", namespace, name, conditionText(svc, conditionType), status, reason)
	}
	return nil
}
