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

// cluster is a cluster with nodes, and what is known of it.
type cluster struct {
	kubeconfig string        // as $KUBECONFIG has it
	admin      client.Client // reads live
	clients    kubernetes.Interface
	// certificates are of the version that the API server serves.
	certificates controlplane.Certificates
	writes       *writes
	tools        tools
	scraper      string // a token that may read metrics
	// machine is the node on this machine; nil in a cluster of the user's, where
	// nothing but the API can be reached.
	machine *node.Node
}

// connect returns the cluster of a kubeconfig, or of several as $KUBECONFIG may name
// them, whose user is an administrator.
func connect(ctx context.Context, kubeconfig string) (*cluster, error) {
	rules := &clientcmd.ClientConfigLoadingRules{Precedence: filepath.SplitList(kubeconfig)}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, err
	}
	config.QPS = -1 // limited by the server alone
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

// objectsOf are the objects of one of the manifests, in which old texts are replaced
// by new ones: pairs of them.
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
		// A pod of an opted-in namespace is refused while no webhook answers.
		eventually(t, settling, "apply "+manifest, func(ctx context.Context) error {
			return c.admin.Apply(ctx, client.ApplyConfigurationFromUnstructured(obj.DeepCopy()), client.FieldOwner(owner))
		})
	}
}

// removeScenes deletes what the manifests hold. Namespaces go on going when it
// returns.
func (c *cluster) removeScenes(ctx context.Context) error {
	files, err := manifests.ReadDir("manifests")
	errs := []error{err}
	for _, file := range files {
		objects, err := objectsOf(file.Name())
		errs = append(errs, err)
		for _, obj := range objects {
			// A scene that was left out may have made no kinds either.
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

// pods are those that a Service selects and that are not on their way out.
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

// rolledOut is nil if all that the namespace's Deployments and StatefulSets are to
// run is ready, and nothing else runs; "" for no name: all of them.
func (c *cluster) rolledOut(ctx context.Context, namespace, name string) error {
	var errs []error
	deployments := &appsv1.DeploymentList{}
	if err := c.admin.List(ctx, deployments, client.InNamespace(namespace)); err != nil {
		return err
	}
	for _, d := range deployments.Items {
		s := d.Status
		if (name == "" || name == d.Name) && (s.ObservedGeneration < d.Generation || s.UpdatedReplicas != *d.Spec.Replicas || s.ReadyReplicas != *d.Spec.Replicas || s.Replicas != *d.Spec.Replicas) {
			errs = append(errs, fmt.Errorf("Deployment %s/%s: %d of %d pods are of the newest template, %d are ready, %d there: %w",
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

// whyNotReady is what the kubelet, or the scheduler, says of pods that are not ready.
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
	return errors.New("no pod says why")
}

// currentLeaf is the certificate in the Secret of a Service, by its condition.
func (c *cluster) currentLeaf(ctx context.Context, namespace, name string) (string, error) {
	svc, err := c.service(ctx, namespace, name)
	if err != nil {
		return "", err
	}
	leaf, ok := state.LeafOf(svc)
	if !ok {
		return "", fmt.Errorf("Service %s/%s has no condition with a leaf: %s", namespace, name, told(svc, api.ConditionReady))
	}
	return leaf, nil
}

// told is a condition of a Service, in one line.
func told(svc *corev1.Service, conditionType string) string {
	cond := api.Condition(svc, conditionType)
	if cond == nil {
		return conditionType + " is not there"
	}
	return fmt.Sprintf("%s=%s, %s: %s", cond.Type, cond.Status, cond.Reason, cond.Message)
}

// says is nil if the Service's condition has the status and the reason.
func (c *cluster) says(ctx context.Context, namespace, name, conditionType, status, reason string) error {
	svc, err := c.service(ctx, namespace, name)
	if err != nil {
		return err
	}
	cond := api.Condition(svc, conditionType)
	if cond == nil || string(cond.Status) != status || cond.Reason != reason {
		return fmt.Errorf("Service %s/%s: %s; want %s, %s", namespace, name, told(svc, conditionType), status, reason)
	}
	return nil
}
