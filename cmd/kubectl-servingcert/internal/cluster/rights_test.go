package cluster

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/servingcert/servingcert/pkg/plan"
)

// readOnly is a cluster with Services shop/web and bank/db, whose user may read everything and change nothing.
func readOnly(t *testing.T) *Cluster {
	services, deployments := corev1.ServiceList{}, appsv1.DeploymentList{}
	for namespace, name := range map[string]string{"shop": "web", "bank": "db"} {
		meta, labels := metav1.ObjectMeta{Namespace: namespace, Name: name}, map[string]string{"app": name}
		services.Items = append(services.Items, corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{Selector: labels, Ports: []corev1.ServicePort{{Name: "http", Port: 80}}}})
		deployments.Items = append(deployments.Items, appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "registry.example/app"}}},
		}}})
	}
	statefulSets := appsv1.StatefulSetList{} // both call the Services, and only one is in a namespace with a Service
	for _, namespace := range []string{"shop", "apart"} {
		statefulSets.Items = append(statefulSets.Items, appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "client"}, Spec: appsv1.StatefulSetSpec{Template: corev1.PodTemplateSpec{
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "registry.example/app", Args: []string{"http://web.shop.svc", "http://db.bank.svc"}}}},
		}}})
	}
	answers := map[string]any{
		"/apis/apps/v1/statefulsets": statefulSets,
		"/api/v1/services":           services, "/apis/apps/v1/deployments": deployments,
		"/api/v1/namespaces": corev1.NamespaceList{Items: []corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, {ObjectMeta: metav1.ObjectMeta{Name: "bank"}}}},
		"/apis/authorization.k8s.io/v1/selfsubjectaccessreviews": authorizationv1.SelfSubjectAccessReview{},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer, ok := answers[r.URL.Path]
		if !ok {
			answer = metav1.List{}
		}
		assert.NoError(t, json.NewEncoder(w).Encode(answer))
	}))
	t.Cleanup(server.Close)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	require.NoError(t, err)
	return &Cluster{Client: client}
}

// TestMissingRightsOfAPlan: a plan of one Service has the missing rights that its own steps need.
func TestMissingRightsOfAPlan(t *testing.T) {
	for name, tt := range map[string]struct{ names, want []string }{
		"all Services": {nil, []string{"patch namespaces in bank, shop", "patch services in bank, shop", "patch deployments in bank, shop", "patch statefulsets in shop", "list endpointslices in bank, shop"}},
		"one Service":  {[]string{"shop/web"}, []string{"patch namespaces in shop", "patch services in shop", "patch deployments in shop", "patch statefulsets in shop", "list endpointslices in shop"}},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := readOnly(t).Plan(t.Context(), nil, "", tt.names, plan.Options{})
			require.NoError(t, err)
			assert.Equal(t, tt.want, p.Forbidden)
		})
	}
}
