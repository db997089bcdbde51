package plan

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/yaml"
)

func quantities(list map[corev1.ResourceName]string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for name, text := range list {
		out[name] = resource.MustParse(text)
	}
	return out
}

// TestCompleteOfAManifest: all fields are kept, even those that this version of Kubernetes does not know.
func TestCompleteOfAManifest(t *testing.T) {
	s := planOf(t, `{apiVersion: v1, kind: Service, metadata: {name: web, labels: {a: b}}, spec: {type: NodePort, new: field, selector: {app: web}, ports: [{port: 80, nodePort: 30080}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: web, labels: {app: web}}, spec: {containers: [{name: c, image: i}]}}`).Services[0]
	got, err := yaml.Marshal(s.Complete())
	require.NoError(t, err)
	assert.YAMLEq(t, `{apiVersion: v1, kind: Service, metadata: {name: web, labels: {a: b}, annotations: {servingcert.dev/secret-name: web-tls}},
spec: {type: NodePort, new: field, selector: {app: web}, ports: [{name: http, port: 80, nodePort: 30080}, {name: https, port: 443, protocol: TCP, targetPort: sc-tls-80}]}}`, string(got))
	assert.NotContains(t, s.content["metadata"], "annotations", "the plan's own copy is unchanged")
}

// TestCompleteOfACluster: without the fields that the API server fills in.
func TestCompleteOfACluster(t *testing.T) {
	for name, tt := range map[string]struct{ have, want string }{
		"allocated": {"10.0.0.7", ""},
		"headless":  {"None", "None"},
	} {
		svc := selecting("web", 8080, "app=web", func(svc *corev1.Service) {
			svc.UID, svc.ResourceVersion, svc.ManagedFields = "u", "7", []metav1.ManagedFieldsEntry{{Manager: "m"}}
			svc.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: "{}", "note": "kept"}
			svc.Spec.ClusterIP, svc.Spec.ClusterIPs = tt.have, []string{tt.have}
			svc.Status.Conditions = []metav1.Condition{{Type: "t"}}
		})
		b := New([]*corev1.Service{svc}, nil, Options{})
		b.AddWorkload(pod("web", map[string]string{"app": "web"}, 8080))
		s := b.Plan().Services[0]
		got := s.Complete()
		assert.Equal(t, map[string]any{"name": "web", "namespace": "shop", "annotations": map[string]any{"note": "kept", "servingcert.dev/secret-name": "web-tls"}}, got["metadata"], name)
		spec := got["spec"].(map[string]any)
		if tt.want == "" {
			assert.NotContains(t, spec, "clusterIP", name)
			assert.NotContains(t, spec, "clusterIPs", name)
		} else {
			assert.Equal(t, tt.want, spec["clusterIP"], name)
		}
		assert.Equal(t, map[string]any{"app": "web"}, spec["selector"], name)
		assert.NotContains(t, got, "status", name)

		assert.True(t, s.Unchanged(svc), name)
		svc.Status.Conditions[0].Type = "other"
		assert.True(t, s.Unchanged(svc), "the status may change")
		svc.Spec.Selector = map[string]string{"app": "other"}
		assert.False(t, s.Unchanged(svc), name)
	}
}

// TestOnlyTheAddition: the server's result is compared with the patch, and undone.
func TestOnlyTheAddition(t *testing.T) {
	before := selecting("web", 8080, "app=web", func(svc *corev1.Service) {
		svc.Spec.Type, svc.Spec.Ports[0].NodePort, svc.Spec.Ports[0].Name, svc.Spec.Ports[0].Protocol = corev1.ServiceTypeNodePort, 30080, "", corev1.ProtocolTCP
		svc.UID, svc.ResourceVersion, svc.Labels = "u", "7", map[string]string{"a": "b"}
	})
	b := New([]*corev1.Service{before}, nil, Options{})
	b.AddWorkload(pod("web", map[string]string{"app": "web"}, 8080))
	p := b.Plan().Services[0].Patch
	require.NotNil(t, p)
	merge := func(svc *corev1.Service, patch []byte) *corev1.Service {
		raw, err := json.Marshal(svc)
		require.NoError(t, err)
		raw, err = strategicpatch.StrategicMergePatch(raw, patch, corev1.Service{})
		require.NoError(t, err)
		out := &corev1.Service{}
		require.NoError(t, json.Unmarshal(raw, out))
		return out
	}
	assert.Contains(t, string(p.Merge(before)), `"metadata":{"annotations":{"servingcert.dev/secret-name":"web-tls"},"resourceVersion":"7","uid":"u"}`)
	after := merge(before, p.Merge(before))
	for i := range after.Spec.Ports {
		if after.Spec.Ports[i].NodePort == 0 {
			after.Spec.Ports[i].NodePort = 31000 // the server chooses it
		}
	}
	require.NoError(t, p.Only(before, after))
	for name, change := range map[string]func(*corev1.Service){
		"selector":  func(svc *corev1.Service) { svc.Spec.Selector = nil },
		"type":      func(svc *corev1.Service) { svc.Spec.Type = corev1.ServiceTypeClusterIP },
		"node port": func(svc *corev1.Service) { port(svc, 8080).NodePort = 30081 },
		"target":    func(svc *corev1.Service) { port(svc, 8080).TargetPort = intstr.FromInt32(1) },
		"added":     func(svc *corev1.Service) { port(svc, 8443).TargetPort = intstr.FromInt32(1) },
		"third port": func(svc *corev1.Service) {
			svc.Spec.Ports = append(svc.Spec.Ports, corev1.ServicePort{Name: "x", Port: 9})
		},
		"annotations": func(svc *corev1.Service) { svc.Annotations["x"] = "y" },
		"labels":      func(svc *corev1.Service) { svc.Labels = nil },
	} {
		changed := after.DeepCopy()
		change(changed)
		assert.Error(t, p.Only(before, changed), name)
	}
	back := merge(after, p.Undo(before))
	assert.Len(t, back.Spec.Ports, 1)
	assert.Equal(t, before.Annotations, back.Annotations)
	assert.NotContains(t, string(p.Undo(before)), "resourceVersion", "later changes do not prevent it")
}

// port returns the port with the number.
func port(svc *corev1.Service, number int32) *corev1.ServicePort {
	for i := range svc.Spec.Ports {
		if svc.Spec.Ports[i].Port == number {
			return &svc.Spec.Ports[i]
		}
	}
	return nil
}
