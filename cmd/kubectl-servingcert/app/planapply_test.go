package app

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/apply"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/plan"
)

// TestNothingToDoIsNotYetTLS: a second run fails like the first one while TLS is not seen.
func TestNothingToDoIsNotYetTLS(t *testing.T) {
	name, labels := "https", map[string]string{"app": "web"}
	endpoints := plan.Endpoints{}
	endpoints.Add(&discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		Endpoints:  []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}}}, Ports: []discoveryv1.EndpointPort{{Name: &name}},
	})
	const notSeen = "nothing to do, but 1 Service not seen to serve TLS: shop/web"
	for _, tt := range []struct {
		reason      string
		hostNetwork bool // of the pods, which then get no proxy
		asks        string
		want        string
	}{
		{api.ServingUnreachable, false, api.AnnotationSecretName, notSeen},
		{api.ServingUnreachable, false, api.AnnotationKeySource, notSeen},
		{api.ServingNoPort, true, api.AnnotationSecretName, notSeen},
		{api.ServingCurrent, false, api.AnnotationSecretName, ""},
		{api.ServingCurrent, false, api.AnnotationKeySource, ""},
	} {
		svc := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Annotations: map[string]string{tt.asks: "pod"}},
			Spec:       corev1.ServiceSpec{Selector: labels, Ports: []corev1.ServicePort{{Name: name, Port: 443, TargetPort: intstr.FromString("sc-tls-8080")}}},
		}
		svc.Status.Conditions = state.Say(metav1.Condition{Type: api.ConditionServing, Reason: tt.reason}, state.Serving{Ports: api.NeedsHash(svc)}).Both()
		b := plan.New([]*corev1.Service{svc}, nil, plan.Options{Live: true, Endpoints: endpoints})
		b.AddWorkload(plan.Workload{Kind: "Deployment", Namespace: "shop", Name: "web", Pod: &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{HostNetwork: tt.hostNetwork, Containers: []corev1.Container{{Name: "c", Image: "registry.example/app"}}},
		}})
		var out bytes.Buffer
		f := planFlags{plugin: &plugin{streams: streams{screen: screen{to: &out}}}}
		err := f.carryOut(t.Context(), b.Plan())
		assert.Equal(t, "nothing to do for --apply\n", out.String(), tt.reason)
		if tt.want == "" {
			assert.NoError(t, err, tt.reason)
			continue
		}
		assert.EqualError(t, err, tt.want)
	}
}

// TestClientsThatAreLeftAlone: they are named, and those of other namespaces do not make the command fail.
func TestClientsThatAreLeftAlone(t *testing.T) {
	p := plan.Plan{Services: []plan.Service{{Namespace: "shop", Name: "web"}}, Clients: []plan.Client{
		{Namespace: "data", Workload: "Deployment/a", Wave: 2}, {Namespace: "shop", Workload: "Deployment/b", Wave: 2, Connect: "web", Notes: []string{"n"}},
	}}
	assert.Empty(t, leftAlone(p, false))
	assert.Equal(t, `wave 2  shop/Deployment/b: annotation servingcert.dev/connect=web, roll out
        note: n
left alone: data/Deployment/a: it is in another namespace: annotate it yourself, or use -A
`, outlook(p, apply.Chosen(p, false), false))
	p.Clients = append(p.Clients, plan.Client{Namespace: "shop", Workload: "CronJob/c", Wave: 2}, plan.Client{Namespace: "shop", Workload: "Job/d"})
	assert.Equal(t, "1 client", leftAlone(p, false))
	p.Services = append(p.Services, plan.Service{Namespace: "shop", Name: "db", Wave: 1, ManagedBy: "Flux"})
	assert.Equal(t, "1 Service and 1 client", leftAlone(p, false))
}

// TestListsOfClientsInTheOutlook: a list that refuses others is named as such, and one that another tool manages is left.
func TestListsOfClientsInTheOutlook(t *testing.T) {
	p := plan.Plan{Services: []plan.Service{
		{Namespace: "data", Name: "db", Way: plan.WayDone, Guard: &plan.Guard{Wave: 1, Clients: "shop/cart", Refuses: true}},
		{Namespace: "shop", Name: "web", Way: plan.WayDone, Guard: &plan.Guard{Wave: 3, Clients: "watch, shop/cart"}},
		{Namespace: "shop", Name: "flux", Way: plan.WayDone, ManagedBy: "Flux", Guard: &plan.Guard{Wave: 1, Clients: "watch, shop/cart"}},
		{Namespace: "shop", Name: "stays", Way: plan.WayDone, ManagedBy: "Flux", Guard: &plan.Guard{Why: "x"}},
	}}
	assert.Equal(t, `wave 1  data/db: annotation servingcert.dev/clients=shop/cart, which refuses all other clients
wave 3  shop/web: annotation servingcert.dev/clients=watch, shop/cart, which refuses nobody
left alone: shop/flux: annotation servingcert.dev/clients: Flux manages it: change its source (plan -o yaml)
`, outlook(p, apply.Chosen(p, false), false))
	assert.Equal(t, "1 Service", leftAlone(p, false))
	p = plan.Plan{
		Services: []plan.Service{{Namespace: "shop", Name: "web", Way: plan.WayDone, Guard: &plan.Guard{Wave: 3, Clients: "watch, data/job", After: []string{"data/Deployment/job"}}}},
		Clients:  []plan.Client{{Namespace: "data", Workload: "Deployment/job", Wave: 2}},
	}
	assert.Contains(t, outlook(p, apply.Chosen(p, false), false), "left alone: shop/web: annotation servingcert.dev/clients: data/Deployment/job is left alone, and has to connect first\n")
	assert.Empty(t, leftAlone(p, false), "as for the client, which is in another namespace")
	assert.NotContains(t, outlook(p, apply.Chosen(p, true), true), "left alone")
	err := (&planFlags{}).sayDone(p, nil, apply.Applier{Unguarded: []string{"shop/web"}})
	assert.EqualError(t, err, "done, but the pods of 1 Service not seen to have its list of clients: shop/web")
}
