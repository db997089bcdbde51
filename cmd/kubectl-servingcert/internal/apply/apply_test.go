package apply

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/plan"
)

// world is a cluster with Service shop/web, its Deployment, and an endpoint.
type world struct {
	*fake.Clientset
	applier Applier
	out     bytes.Buffer
	service plan.Service

	taken, managedBy string // a Secret of the requested name, and its manager
	serving          func(*corev1.Service) []metav1.Condition
}

func newWorld(t *testing.T) *world {
	t.Helper()
	labels := map[string]string{"app": "web"}
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u"},
		Spec: corev1.ServiceSpec{Selector: labels, Ports: []corev1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(8080)}}}}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "registry.example/app", Ports: []corev1.ContainerPort{{ContainerPort: 8080}}}}},
	}}}
	w := &world{Clientset: fake.NewClientset(svc, d, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, slice("http"))}
	w.applier = Applier{Client: w, FieldManager: "test", Out: &w.out, Timeout: time.Second, Timing: Timing{PollInterval: time.Millisecond, Settle: 5 * time.Millisecond, Endpoints: process.Soon, Serving: 20 * time.Millisecond}}
	w.applier.Secret = func(context.Context, string, string) (bool, string, error) { return w.taken != "", w.managedBy, nil }
	b := plan.New([]*corev1.Service{svc}, nil, plan.Options{Live: true, Endpoints: plan.Endpoints{}})
	b.AddWorkload(plan.Workload{Kind: "Deployment", Namespace: "shop", Name: "web", Pod: &corev1.Pod{ObjectMeta: d.Spec.Template.ObjectMeta, Spec: d.Spec.Template.Spec}})
	w.service = b.Plan().Services[0]
	require.NotNil(t, w.service.Patch)
	return w
}

func slice(ports ...string) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		Endpoints:  []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}}},
	}
	for _, p := range ports {
		s.Ports = append(s.Ports, discoveryv1.EndpointPort{Name: &p})
	}
	return s
}

func (w *world) run(t *testing.T) error {
	t.Helper()
	return w.applier.Run(t.Context(), Chosen(plan.Plan{Services: []plan.Service{w.service}}, false))
}

func (w *world) svc(t *testing.T) *corev1.Service {
	t.Helper()
	svc, err := w.CoreV1().Services("shop").Get(t.Context(), "web", metav1.GetOptions{})
	require.NoError(t, err)
	return svc
}

// whenPatched changes the cluster once the Service is patched.
func (w *world) whenPatched(do func()) {
	once := false
	w.PrependReactor("patch", "services", func(clienttesting.Action) (bool, runtime.Object, error) {
		if !once {
			once = true
			do()
		}
		return false, nil, nil
	})
}

// TestLostEndpointsRevertThePatch: a port that had ready endpoints has none after the patch.
func TestLostEndpointsRevertThePatch(t *testing.T) {
	w := newWorld(t)
	w.applier.Timing.Endpoints = 100 * time.Millisecond
	w.whenPatched(func() {
		require.NoError(t, w.Tracker().Update(discoveryv1.SchemeGroupVersion.WithResource("endpointslices"), slice("other"), "shop"))
	})
	assert.EqualError(t, w.run(t), "Service shop/web: port 80/TCP had ready endpoints, and has none since the Service was patched; the addition was reverted. These namespaces keep label servingcert.dev/inject=enabled: shop")
	svc := w.svc(t)
	assert.Len(t, svc.Spec.Ports, 1)
	assert.Empty(t, svc.Annotations)
}

// TestAChangedServiceIsLeft: it differs from the Service of the plan.
func TestAChangedServiceIsLeft(t *testing.T) {
	w := newWorld(t)
	svc := w.svc(t)
	svc.Spec.Selector = map[string]string{"app": "other"}
	_, err := w.CoreV1().Services("shop").Update(t.Context(), svc, metav1.UpdateOptions{})
	require.NoError(t, err)
	assert.EqualError(t, w.run(t), "Service shop/web was changed since the plan was made: run the command again")
	assert.Len(t, w.svc(t).Spec.Ports, 1)
	assert.Empty(t, w.label(t), "its namespace is not opted in either")
}

// label returns the namespace's label.
func (w *world) label(t *testing.T) string {
	t.Helper()
	ns, err := w.CoreV1().Namespaces().Get(t.Context(), "shop", metav1.GetOptions{})
	require.NoError(t, err)
	return ns.Labels[api.LabelInject]
}

// TestWhatCannotBeReadIsNotChanged: without the endpoints, no step can be checked.
func TestWhatCannotBeReadIsNotChanged(t *testing.T) {
	w := newWorld(t)
	reads := 0
	w.PrependReactor("list", "endpointslices", func(clienttesting.Action) (bool, runtime.Object, error) {
		reads++
		return true, nil, apierrors.NewForbidden(discoveryv1.Resource("endpointslices"), "", nil)
	})
	assert.ErrorContains(t, w.run(t), "EndpointSlices of Service shop/web")
	assert.Empty(t, w.label(t))

	w = newWorld(t)
	reads = 0
	w.PrependReactor("list", "endpointslices", func(clienttesting.Action) (bool, runtime.Object, error) {
		if reads++; reads == 1 {
			return false, nil, nil
		}
		return true, nil, apierrors.NewForbidden(discoveryv1.Resource("endpointslices"), "", nil)
	})
	assert.ErrorContains(t, w.run(t), "These namespaces keep label servingcert.dev/inject=enabled: shop")
	assert.Equal(t, api.InjectEnabled, w.label(t))
}

// TestAnotherValueOfTheLabelStays: an administrator has opted the namespace out.
func TestAnotherValueOfTheLabelStays(t *testing.T) {
	w := newWorld(t)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{api.LabelInject: api.InjectDisabled}}}
	require.NoError(t, w.Tracker().Update(corev1.SchemeGroupVersion.WithResource("namespaces"), ns, ""))
	assert.EqualError(t, w.run(t), "Namespace shop has label servingcert.dev/inject=disabled: remove the label first if its Services are to have certificates. Nothing was changed")
	assert.Equal(t, api.InjectDisabled, w.label(t))
	assert.Empty(t, w.svc(t).Annotations)
}

// TestWithoutACertificateNoPodIsReplaced, and the ports stay as they are.
func TestWithoutACertificateNoPodIsReplaced(t *testing.T) {
	w := newWorld(t)
	w.applier.Timeout = 10 * time.Millisecond
	assert.ErrorContains(t, w.run(t), "Service shop/web has no certificate after 10ms: the signer has not answered. No pod was replaced")
	d, err := w.AppsV1().Deployments("shop").Get(t.Context(), "web", metav1.GetOptions{})
	require.NoError(t, err)
	assert.Empty(t, d.Spec.Template.Annotations)
}

// TestUnmanagedSecretIsLeft: the signer would refuse it, and pods would mount it.
func TestUnmanagedSecretIsLeft(t *testing.T) {
	w := newWorld(t)
	w.taken = "web-tls"
	assert.ErrorContains(t, w.run(t), "Service shop/web: Secret web-tls exists, and is not managed by servingcert: set annotation servingcert.dev/secret-name of the Service to another name, or annotations servingcert.dev/secret-name: web-tls and servingcert.dev/issuer: external to keep its issuer")
	assert.Empty(t, w.svc(t).Annotations)
	w.managedBy = "servingcert"
	assert.ErrorContains(t, w.run(t), "has no certificate", "a managed Secret is accepted")
}

// TestStatusMayChangeMeanwhile: a Service whose status alone has changed is read again.
func TestStatusMayChangeMeanwhile(t *testing.T) {
	w := newWorld(t)
	conflicts := 0
	w.PrependReactor("patch", "services", func(clienttesting.Action) (bool, runtime.Object, error) {
		if conflicts++; conflicts > 2 {
			return false, nil, nil
		}
		return true, nil, apierrors.NewConflict(corev1.Resource("services"), "web", nil)
	})
	assert.ErrorContains(t, w.run(t), "has no certificate")
	assert.Len(t, w.svc(t).Spec.Ports, 2)
}

// TestClaimsAreVolumesOfThePod, as the controller of StatefulSets adds them.
func TestClaimsAreVolumesOfThePod(t *testing.T) {
	s := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "db"}}
	s.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}}}
	s.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "data"}, {Name: "other"}}
	got := withClaims(s).Spec.Volumes
	require.Len(t, got, 2)
	assert.Equal(t, "other", got[0].Name)
	assert.Equal(t, "data-db-0", got[1].PersistentVolumeClaim.ClaimName)
	assert.Nil(t, s.Spec.Template.Spec.Volumes[0].PersistentVolumeClaim, "the object is unchanged")
}

var (
	always = corev1.ContainerRestartPolicyAlways
	proxy  = []corev1.Container{{Name: api.ProxyContainer, RestartPolicy: &always, Args: []string{"--listen=sc-tls-8080=15444:8080"}}}
)

// TestPodsThatHaveTheProxyStay, and pods that must be replaced by hand are not waited for.
func TestPodsThatHaveTheProxyStay(t *testing.T) {
	yes := true
	for _, tt := range []struct {
		has, onDelete bool
		said          string
	}{
		{true, false, "shop/Deployment/web: its pods already have the proxy\n"},
		{false, true, "shop/Deployment/web: replace its pods yourself: it is paused, or its update strategy is OnDelete\nservice shop/web: not seen to serve TLS: it serves TLS once the pods named above are replaced\n"},
	} {
		w := newWorld(t)
		w.issuing(t, func(p *corev1.Pod) error {
			p.Labels, p.Spec.InitContainers = map[string]string{api.LabelInjected: "true"}, proxy
			return nil
		})
		d, err := w.AppsV1().Deployments("shop").Get(t.Context(), "web", metav1.GetOptions{})
		require.NoError(t, err)
		d.Spec.Paused = tt.onDelete
		require.NoError(t, w.Tracker().Update(appsv1.SchemeGroupVersion.WithResource("deployments"), d, "shop"))
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", Labels: map[string]string{"app": "web", "pod-template-hash": "5f5d"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-5f5d", Controller: &yes}}}}
		if tt.has {
			pod.Spec.InitContainers = proxy
			w.whenPatched(func() {
				require.NoError(t, w.Tracker().Update(discoveryv1.SchemeGroupVersion.WithResource("endpointslices"), slice("http", "https"), "shop"))
			})
		}
		require.NoError(t, w.Tracker().Add(pod))
		require.NoError(t, w.run(t))
		assert.Contains(t, w.out.String(), tt.said)
		assert.Equal(t, []string{"shop/web"}, w.applier.Unseen)
		d, err = w.AppsV1().Deployments("shop").Get(t.Context(), "web", metav1.GetOptions{})
		require.NoError(t, err)
		assert.Empty(t, d.Spec.Template.Annotations)
	}
}

// TestAnEndpointIsNotYetTLS: a Service is done once the rotator has seen it serve TLS at its current ports.
func TestAnEndpointIsNotYetTLS(t *testing.T) {
	for name, tt := range map[string]struct {
		serving func(svc *corev1.Service) []metav1.Condition
		said    string
	}{
		"seen": {func(svc *corev1.Service) []metav1.Condition {
			return state.Say(metav1.Condition{Type: api.ConditionServing, Status: metav1.ConditionTrue}, state.Serving{Ports: api.NeedsHash(svc)}).Both()
		}, "service shop/web: seen to serve TLS\n"},
		"seen at other ports": {func(*corev1.Service) []metav1.Condition {
			return state.Say(metav1.Condition{Type: api.ConditionServing, Status: metav1.ConditionTrue}, state.Serving{Ports: "0a"}).Both()
		}, "not seen to serve TLS: condition servingcert.dev/Serving is True, "},
		"not reached": {func(svc *corev1.Service) []metav1.Condition {
			return state.Say(metav1.Condition{Type: api.ConditionServing, Status: metav1.ConditionUnknown, Reason: api.ServingUnreachable}, state.Serving{Ports: api.NeedsHash(svc)}).Both()
		}, "not seen to serve TLS: condition servingcert.dev/Serving is Unknown, Unreachable\n"},
		"not probed": {func(*corev1.Service) []metav1.Condition { return nil }, "not seen to serve TLS: condition servingcert.dev/Serving is not set yet\n"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.issuing(t, func(p *corev1.Pod) error {
				p.Labels, p.Spec.InitContainers = map[string]string{api.LabelInjected: "true"}, proxy
				return nil
			})
			yes := true
			require.NoError(t, w.Tracker().Add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", Labels: map[string]string{"app": "web", "pod-template-hash": "5f5d"},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-5f5d", Controller: &yes}}},
				Spec: corev1.PodSpec{InitContainers: proxy}}))
			w.whenPatched(func() {
				require.NoError(t, w.Tracker().Update(discoveryv1.SchemeGroupVersion.WithResource("endpointslices"), slice("http", "https"), "shop"))
			})
			w.serving = tt.serving
			require.NoError(t, w.run(t))
			assert.Contains(t, w.out.String(), tt.said)
			assert.Equal(t, name != "seen", len(w.applier.Unseen) > 0)
		})
	}
}

// TestTheConditionIsAboutEarlierPods: it is True before and after the rollout, and the rotator has not dialled the new pods.
func TestTheConditionIsAboutEarlierPods(t *testing.T) {
	w := newWorld(t)
	w.issuing(t, func(p *corev1.Pod) error {
		p.Labels, p.Spec.InitContainers = map[string]string{api.LabelInjected: "true"}, proxy
		return nil
	})
	w.serving = func(svc *corev1.Service) []metav1.Condition {
		return state.Say(metav1.Condition{Type: api.ConditionServing, Status: metav1.ConditionTrue}, state.Serving{Ports: api.NeedsHash(svc)}).Both()
	}
	w.PrependReactor("patch", "deployments", func(clienttesting.Action) (bool, runtime.Object, error) {
		d, err := w.Tracker().Get(appsv1.SchemeGroupVersion.WithResource("deployments"), "shop", "web")
		require.NoError(t, err)
		done := d.(*appsv1.Deployment).DeepCopy()
		done.Generation, done.Status = 2, appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1, AvailableReplicas: 1}
		require.NoError(t, w.Tracker().Update(appsv1.SchemeGroupVersion.WithResource("deployments"), done, "shop"))
		require.NoError(t, w.Tracker().Update(discoveryv1.SchemeGroupVersion.WithResource("endpointslices"), slice("http", "https"), "shop"))
		return true, done, nil
	})
	require.NoError(t, w.run(t))
	assert.Contains(t, w.out.String(), "service shop/web: not seen to serve TLS: condition servingcert.dev/Serving was True before its pods were replaced")
	assert.Equal(t, []string{"shop/web"}, w.applier.Unseen)
}

// issuing sets condition Ready of the Service from its patch on, and answers dry runs of pods.
func (w *world) issuing(t *testing.T, pod func(*corev1.Pod) error) {
	w.PrependReactor("get", "services", func(clienttesting.Action) (bool, runtime.Object, error) {
		obj, err := w.Tracker().Get(corev1.SchemeGroupVersion.WithResource("services"), "shop", "web")
		if err != nil {
			return true, nil, err
		}
		svc := obj.(*corev1.Service).DeepCopy()
		if w.serving != nil {
			svc.Status.Conditions = w.serving(svc)
		}
		svc.Status.Conditions = append(svc.Status.Conditions, metav1.Condition{Type: api.ConditionReady, Status: metav1.ConditionTrue})
		return true, svc, nil
	})
	w.PrependReactor("create", "selfsubjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		review := a.(clienttesting.CreateAction).GetObject().DeepCopyObject()
		return true, allowed(review), nil
	})
	w.PrependReactor("create", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		made := a.(clienttesting.CreateAction).GetObject().(*corev1.Pod).DeepCopy()
		assert.Equal(t, []string{metav1.DryRunAll}, a.(clienttesting.CreateActionImpl).CreateOptions.DryRun)
		return true, made, pod(made)
	})
}

// TestDryRunFindsPodWithoutProxy before any pod is replaced.
func TestDryRunFindsPodWithoutProxy(t *testing.T) {
	for want, pod := range map[string]func(*corev1.Pod) error{
		"shop/Deployment/web: a new pod would be refused, so none of its pods was replaced: no room": func(*corev1.Pod) error { return fmt.Errorf("no room") },
		"shop/Deployment/web: a new pod would not be injected, so none of its pods was replaced: the webhook did nothing: see kubectl servingcert doctor": func(*corev1.Pod) error {
			return nil
		},
		"shop/Deployment/web: a new pod would have no proxy for sc-tls-8080, so none of its pods was replaced: annotation servingcert.dev/status is {}": func(p *corev1.Pod) error {
			p.Labels, p.Annotations = map[string]string{api.LabelInjected: "true"}, map[string]string{api.AnnotationStatus: "{}"}
			return nil
		},
	} {
		w := newWorld(t)
		w.issuing(t, pod)
		assert.EqualError(t, w.run(t), want+". These namespaces keep label servingcert.dev/inject=enabled: shop. These Services keep the additions, and the next run continues with them: shop/web")
		d, err := w.AppsV1().Deployments("shop").Get(context.Background(), "web", metav1.GetOptions{})
		require.NoError(t, err)
		assert.Empty(t, d.Spec.Template.Annotations)
	}
}

// TestEachWorkloadIsTriedFirst: where a pod of the second is refused, no pod of the first is replaced.
func TestEachWorkloadIsTriedFirst(t *testing.T) {
	w := newWorld(t)
	require.NoError(t, w.Tracker().Add(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "zoo"}}))
	w.service.Workloads = append(w.service.Workloads, "Deployment/zoo")
	w.issuing(t, func(p *corev1.Pod) error {
		if p.GenerateName == "zoo-" {
			return fmt.Errorf("no room")
		}
		return addProxy(p)
	})
	assert.ErrorContains(t, w.run(t), "shop/Deployment/zoo: a new pod would be refused, so none of its pods was replaced: no room")
	d, err := w.AppsV1().Deployments("shop").Get(t.Context(), "web", metav1.GetOptions{})
	require.NoError(t, err)
	assert.Empty(t, d.Spec.Template.Annotations)
}

// addProxy is what the webhook does.
func addProxy(p *corev1.Pod) error {
	p.Labels = map[string]string{api.LabelInjected: "true"}
	always := corev1.ContainerRestartPolicyAlways
	p.Spec.InitContainers = []corev1.Container{{Name: api.ProxyContainer, RestartPolicy: &always, Args: []string{"--listen=sc-tls-8080=15444:8080"}}}
	return nil
}

// TestARolloutThatHangs ends the command, with the command that undoes it.
func TestARolloutThatHangs(t *testing.T) {
	w := newWorld(t)
	w.applier.Timeout = 10 * time.Millisecond
	w.issuing(t, addProxy)
	assert.EqualError(t, w.run(t), "shop/Deployment/web: the rollout did not finish within 10ms (pods: 0, new: 0, ready: 0). Its old pods continue without TLS. To go back: remove what was added to its Services, then: kubectl rollout undo deployment/web -n shop. These namespaces keep label servingcert.dev/inject=enabled: shop. These Services keep the additions, and the next run continues with them: shop/web")
	d, err := w.AppsV1().Deployments("shop").Get(t.Context(), "web", metav1.GetOptions{})
	require.NoError(t, err)
	assert.NotEmpty(t, d.Spec.Template.Annotations["kubectl.kubernetes.io/restartedAt"])
}

// TestChosenSkipsServices that another tool manages, and those whose clients alone must move.
func TestChosenSkipsServices(t *testing.T) {
	p := plan.Plan{Services: []plan.Service{
		{Name: "a", Wave: 1}, {Name: "b", Wave: 1, ManagedBy: "Argo CD"}, {Name: "c", Wave: 1, Way: plan.WayMove}, {Name: "d", Wave: 2}, {Name: "e"},
	}}
	var got []string
	for i, wave := range Chosen(p, false) {
		for _, s := range wave.Services {
			got = append(got, fmt.Sprint(i, s.Name))
		}
	}
	assert.Equal(t, []string{"0a", "1d"}, got)
}

func allowed(review runtime.Object) runtime.Object {
	r := review.(*authorizationv1.SelfSubjectAccessReview)
	r.Status.Allowed = true
	return r
}

// TestInvalidNamesAreInNoCommand: a server may return names that a shell would run.
func TestInvalidNamesAreInNoCommand(t *testing.T) {
	const namespace, name = "shop;id", "web;id"
	w := newWorld(t)
	w.applier.Timeout, w.applier.Timing.Endpoints = 10*time.Millisecond, 10*time.Millisecond
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
	require.NoError(t, w.Tracker().Add(d))
	err := w.applier.restart(t.Context(), workload{kind: "Deployment", namespace: "shop", name: name}, d)
	assert.ErrorContains(t, err, `then: no command is shown: "web;id" is not a valid name`)

	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 443, TargetPort: intstr.FromString("sc-tls-8080")}}}}
	require.NoError(t, w.Tracker().Add(svc))
	err = w.applier.served(t.Context(), &step{Service: plan.Service{Namespace: namespace, Name: "web"}, before: svc})
	assert.ErrorContains(t, err, `has no ready endpoint after the rollout; see: no command is shown: "shop;id" is not a valid name. To go back`)
}
