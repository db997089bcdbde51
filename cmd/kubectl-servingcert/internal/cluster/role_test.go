package cluster

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/servingcert/servingcert/pkg/api"
)

// TestTheRoleOfVerifyAny on its page has the rights that it uses, and no others.
func TestTheRoleOfVerifyAny(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/other-issuers.md")
	require.NoError(t, err)
	_, text, found := strings.Cut(string(page), "```yaml\napiVersion: rbac.authorization.k8s.io/v1\n")
	require.True(t, found)
	text, _, _ = strings.Cut(text, "```")
	var role rbacv1.Role
	require.NoError(t, yaml.UnmarshalStrict([]byte(text), &role))
	granted := map[string]bool{}
	for _, rule := range role.Rules {
		assert.Equal(t, []string{""}, rule.APIGroups)
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				granted[strings.Join(append([]string{verb, resource}, rule.ResourceNames...), " ")] = true
			}
		}
	}

	meta := metav1.ObjectMeta{Namespace: role.Namespace, Name: "a", Labels: map[string]string{"app": "web"}}
	answers := map[string]any{
		"list services": corev1.ServiceList{Items: []corev1.Service{{ObjectMeta: meta, Spec: corev1.ServiceSpec{Selector: meta.Labels, Ports: []corev1.ServicePort{{Port: 443}}}}}},
		"list pods": corev1.PodList{Items: []corev1.Pod{{
			ObjectMeta: meta,
			Spec: corev1.PodSpec{
				Volumes:    []corev1.Volume{{Name: "tls", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "web-tls"}}}},
				Containers: []corev1.Container{{Name: "c", VolumeMounts: []corev1.VolumeMount{{Name: "tls", MountPath: "/tls"}}}},
			},
			Status: corev1.PodStatus{PodIP: "10.0.0.1", Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
		}}},
		"get secrets": corev1.Secret{}, "get configmaps " + api.BundleName: corev1.ConfigMap{},
	}
	var mu sync.Mutex
	used := map[string]bool{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		right := rightOf(r, role.Namespace)
		mu.Lock()
		used[right] = true
		mu.Unlock()
		answer, ok := answers[right]
		if !ok { // no port is forwarded
			http.Error(w, "no", http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		assert.NoError(t, json.NewEncoder(w).Encode(answer))
	}))
	t.Cleanup(server.Close)
	cfg := &rest.Config{Host: server.URL}
	client, err := kubernetes.NewForConfig(cfg)
	require.NoError(t, err)
	_, err = (&Cluster{Client: client}).ServedPorts(t.Context(), cfg, role.Namespace, Dials{Timeout: 10 * time.Second, ClusterDomain: "cluster.local"})
	assert.ErrorContains(t, err, "none of 1 ports gave an answer")
	mu.Lock()
	defer mu.Unlock()
	assert.Equal(t, slices.Sorted(maps.Keys(used)), slices.Sorted(maps.Keys(granted)))
}

// rightOf returns the verb and the resource of a request in the namespace, with the name of a ConfigMap.
func rightOf(r *http.Request, namespace string) string {
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/api/v1/namespaces/"+namespace+"/"), "/")
	verb := strings.ToLower(strings.Replace(r.Method, http.MethodPost, "create", 1))
	switch {
	case len(parts) == 3:
		return verb + " " + parts[0] + "/" + parts[2]
	case len(parts) == 1:
		return "list " + parts[0]
	case parts[0] == "configmaps":
		return verb + " " + parts[0] + " " + parts[1]
	}
	return verb + " " + parts[0]
}
