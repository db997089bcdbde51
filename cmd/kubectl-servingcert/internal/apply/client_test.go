package apply

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/plan"
)

// clientWorld is a cluster with Service shop/web, which serves TLS beside plaintext, and Deployment shop/cart, which
// calls it.
type clientWorld struct {
	*fake.Clientset
	applier Applier
	out     bytes.Buffer
	plan    plan.Plan
	web     *corev1.Service
	cart    *appsv1.Deployment
	patches [][]byte // of the Deployment
	// dryRun are the init containers of a pod that is tried, and made those of the new pods; nil if none is made.
	dryRun, made []corev1.Container
	finishes     bool // the rollout
}

var (
	connecting = []corev1.Container{{Name: api.ProxyContainer, RestartPolicy: &always, Args: []string{"--connect=127.1.0.1:80=web.shop.svc:443"}}}
	elsewhere  = []corev1.Container{{Name: api.ProxyContainer, RestartPolicy: &always, Args: []string{"--connect=127.1.0.1:80=db.shop.svc:443"}}}
)

func newClientWorld(t *testing.T) *clientWorld {
	t.Helper()
	labels := map[string]string{"app": "cart"}
	w := &clientWorld{dryRun: connecting, made: connecting, finishes: true}
	w.web = &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Annotations: map[string]string{api.AnnotationSecretName: "web-tls"}},
		Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{
			{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080)}, {Name: "https", Port: 443, TargetPort: intstr.FromString("sc-tls-8080")},
		}},
	}
	w.web.Status.Conditions = state.Say(metav1.Condition{Type: api.ConditionServing, Status: metav1.ConditionTrue, Reason: api.ServingCurrent}, state.Serving{Ports: api.NeedsHash(w.web)}).Both()
	w.cart = &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart", UID: "u", ResourceVersion: "7"}, Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "registry.example/cart", Args: []string{"http://web"}}}},
	}}}
	b := plan.New([]*corev1.Service{w.web}, nil, plan.Options{Live: true})
	b.AddWorkload(plan.Workload{Kind: "Deployment", Namespace: "shop", Name: "web", Pod: &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Labels: w.web.Spec.Selector}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "registry.example/app", Ports: []corev1.ContainerPort{{ContainerPort: 8080}}}}},
	}})
	b.AddWorkload(plan.Workload{Kind: "Deployment", Namespace: "shop", Name: "cart", Pod: &corev1.Pod{ObjectMeta: w.cart.Spec.Template.ObjectMeta, Spec: w.cart.Spec.Template.Spec}})
	w.plan = b.Plan()
	require.Equal(t, "web", w.plan.Clients[0].Connect)
	return w
}

// run carries the plan out.
func (w *clientWorld) run(t *testing.T) error {
	t.Helper()
	w.Clientset = fake.NewClientset(w.web, w.cart, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{api.LabelInject: api.InjectEnabled}}})
	w.applier.Client, w.applier.FieldManager, w.applier.Out, w.applier.Timeout = w, "test", &w.out, 20*time.Millisecond
	w.applier.Timing = Timing{PollInterval: time.Millisecond, Endpoints: 20 * time.Millisecond, Serving: 20 * time.Millisecond}
	w.PrependReactor("create", "selfsubjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		return true, allowed(a.(clienttesting.CreateAction).GetObject().DeepCopyObject()), nil
	})
	w.PrependReactor("create", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		pod := a.(clienttesting.CreateAction).GetObject().(*corev1.Pod).DeepCopy()
		assert.Equal(t, "web", pod.Annotations[api.AnnotationConnect])
		pod.Labels, pod.Spec.InitContainers = map[string]string{api.LabelInjected: "true"}, w.dryRun
		return true, pod, nil
	})
	w.PrependReactor("patch", "deployments", func(a clienttesting.Action) (bool, runtime.Object, error) {
		patch := a.(clienttesting.PatchActionImpl)
		w.patches = append(w.patches, patch.GetPatch())
		if len(patch.PatchOptions.DryRun) > 0 {
			return true, w.cart, nil
		}
		done := w.cart.DeepCopy()
		done.Generation = 2
		if w.finishes {
			done.Status = appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1, AvailableReplicas: 1}
		}
		require.NoError(t, w.Tracker().Update(appsv1.SchemeGroupVersion.WithResource("deployments"), done, "shop"))
		if yes := true; w.made != nil {
			require.NoError(t, w.Tracker().Add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart-1", Labels: map[string]string{"app": "cart", "pod-template-hash": "5f5d"},
				Annotations: map[string]string{api.AnnotationStatus: `{"notes":["NotConnected: x"]}`}, OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "cart-5f5d", Controller: &yes}}},
				Spec: corev1.PodSpec{InitContainers: w.made}}))
		}
		return true, done, nil
	})
	return w.applier.Run(t.Context(), Chosen(w.plan, false))
}

// TestAClientIsConnected, and what is not seen to connect is said.
func TestAClientIsConnected(t *testing.T) {
	const patch = `{"metadata":{"resourceVersion":"7","uid":"u"},"spec":{"template":{"metadata":{"annotations":{"servingcert.dev/connect":"web"}}}}}`
	for name, tt := range map[string]struct {
		change  func(*clientWorld)
		patched bool
		said    string
		err     string
	}{
		"connected": {func(*clientWorld) {}, true, "shop/Deployment/cart: the proxies of its pods connect to web.shop.svc\n", ""},
		"the new pods do not": {func(w *clientWorld) { w.made = elsewhere }, true,
			`shop/Deployment/cart: not connected: pod cart-1 does not connect to web.shop.svc: annotation servingcert.dev/status is {"notes":["NotConnected: x"]}` + "\n", ""},
		"there are no new pods": {func(w *clientWorld) { w.made = nil }, true, "shop/Deployment/cart: not connected: it has no pod\n", ""},
		"a new pod would not": {func(w *clientWorld) { w.dryRun = elsewhere }, false, "",
			"shop/Deployment/cart: the proxy of a new pod would not connect to web.shop.svc, so none of its pods was replaced: the webhook did nothing: see kubectl servingcert doctor"},
		"the Service does not serve TLS any more": {func(w *clientWorld) { w.web.Status.Conditions[0].Status = metav1.ConditionFalse }, false,
			"shop/Deployment/cart: not connected: Service shop/web: condition servingcert.dev/Serving is False, Current\n", ""},
		"nothing is known of the Service": {func(w *clientWorld) { w.web.Status.Conditions = nil }, false,
			"shop/Deployment/cart: not connected: Service shop/web: condition servingcert.dev/Serving is not set\n", ""},
		"the condition is about other ports": {func(w *clientWorld) { w.web.Spec.Ports[1].TargetPort = intstr.FromString("sc-any-8080") }, false,
			"shop/Deployment/cart: not connected: Service shop/web: condition servingcert.dev/Serving is about an earlier certificate or other ports\n", ""},
		"its Service was not seen in this run": {func(w *clientWorld) { w.applier.Unseen = []string{"shop/web"} }, false,
			"shop/Deployment/cart: not connected: Service shop/web: it was not seen to serve TLS\n", ""},
		"somebody else has set it": {func(w *clientWorld) {
			w.cart.Spec.Template.Annotations = map[string]string{api.AnnotationConnect: "db"}
		}, false, "", "shop/Deployment/cart: annotation servingcert.dev/connect was changed since the plan was made: run the command again"},
		"it is paused": {func(w *clientWorld) { w.cart.Spec.Paused = true }, false, "shop/Deployment/cart: not connected: its annotation was not set\n", ""},
		"the rollout does not finish": {func(w *clientWorld) { w.finishes = false }, true, "",
			"shop/Deployment/cart: the rollout did not finish within 20ms (pods: 0, new: 0, ready: 0). Its old pods continue as before. To go back: " +
				`kubectl patch deployment cart -n shop -p '{"spec":{"template":{"metadata":{"annotations":{"servingcert.dev/connect":null}}}}}'`},
		"a dry run": {func(w *clientWorld) { w.applier.DryRun = true }, true, "shop/Deployment/cart: annotation servingcert.dev/connect=web (dry run)\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newClientWorld(t)
			tt.change(w)
			err := w.run(t)
			if tt.err == "" {
				require.NoError(t, err)
			} else {
				assert.EqualError(t, err, tt.err)
			}
			assert.Contains(t, w.out.String(), tt.said)
			if tt.patched {
				require.Len(t, w.patches, 1)
				assert.JSONEq(t, patch, string(w.patches[0]))
			} else {
				assert.Empty(t, w.patches)
			}
			well := name == "connected" || name == "a dry run" || tt.err != ""
			assert.Equal(t, !well, len(w.applier.Unconnected) > 0, "%v", w.applier.Unconnected)
		})
	}
}

// TestClientsThatAreLeftAlone: in other namespaces, those that another tool manages, and those that cannot be rolled out.
func TestClientsThatAreLeftAlone(t *testing.T) {
	p := plan.Plan{Services: []plan.Service{{Namespace: "shop", Name: "web"}}}
	for _, tt := range []struct {
		client     plan.Client
		everywhere bool
		why        string
	}{
		{plan.Client{Namespace: "shop", Workload: "Deployment/a"}, false, ""},
		{plan.Client{Namespace: "data", Workload: "Deployment/a"}, false, "it is in another namespace: annotate it yourself, or use -A"},
		{plan.Client{Namespace: "data", Workload: "Deployment/a"}, true, ""},
		{plan.Client{Namespace: "shop", Workload: "CronJob/a"}, true, "replacing the pods of a CronJob is not supported: set the annotation yourself"},
		{plan.Client{Namespace: "shop", Workload: "DaemonSet/a", ManagedBy: "Flux"}, true, "Flux manages it: change its source (plan -o yaml)"},
	} {
		assert.Equal(t, tt.why, Skipped(p, tt.client, tt.everywhere))
		tt.client.Wave = 3
		if p.Clients = []plan.Client{tt.client}; tt.why == "" {
			assert.Equal(t, []Wave{{Number: 3, Clients: p.Clients}}, Chosen(p, tt.everywhere))
		} else {
			assert.Empty(t, Chosen(p, tt.everywhere))
		}
	}
}
