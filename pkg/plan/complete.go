package plan

import (
	"encoding/json"
	"reflect"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// Complete returns the whole Service with the plan's additions, as a manifest for a repository; nil if
// nothing is added. A partial Service is safe only with kubectl patch: kubectl apply --server-side
// takes over fields of an earlier kubectl apply, and removes those that the partial Service lacks.
func (s *Service) Complete() map[string]any {
	if s.Patch == nil {
		return nil
	}
	out := asData(s.content)
	if len(s.Patch.Metadata.Annotations) > 0 {
		annotations := below(below(out, "metadata"), "annotations")
		for name, value := range s.Patch.Metadata.Annotations {
			annotations[name] = value
		}
	}
	if s.Patch.Spec == nil {
		return out
	}
	spec := below(out, "spec")
	ports, _ := spec["ports"].([]any)
	for _, added := range s.Patch.Spec.Ports {
		if have := portOf(ports, added.Port); have != nil { // the patch adds only its name
			have["name"] = added.Name
			continue
		}
		ports = append(ports, map[string]any{"name": added.Name, "port": added.Port, "protocol": added.Protocol, "targetPort": added.TargetPort})
	}
	spec["ports"] = ports
	return out
}

// CompleteGuard returns the whole Service with all additions and the list of its clients, as Complete; nil if the list
// stays.
func (s *Service) CompleteGuard() map[string]any {
	if s.Guard == nil || s.Guard.Clients == "" {
		return nil
	}
	out := s.Complete()
	if out == nil {
		out = asData(s.content)
	}
	below(below(out, "metadata"), "annotations")[api.AnnotationClients] = s.Guard.Clients
	return out
}

// portOf returns the TCP port with the number, or nil.
func portOf(ports []any, number int32) map[string]any {
	for _, p := range ports {
		have, _ := p.(map[string]any)
		protocol, _ := have["protocol"].(string)
		if n, ok := have["port"].(float64); ok && n == float64(number) && (protocol == "" || protocol == string(corev1.ProtocolTCP)) {
			return have
		}
	}
	return nil
}

// manifestOf returns the manifest of a Service in a cluster, without the fields that the API server and its
// controllers fill in. Node ports are kept, because the owner may have chosen them.
func manifestOf(svc *corev1.Service) map[string]any {
	svc = svc.DeepCopy()
	if svc.Spec.ClusterIP != corev1.ClusterIPNone {
		svc.Spec.ClusterIP, svc.Spec.ClusterIPs = "", nil
	}
	out := asData(svc)
	out["apiVersion"], out["kind"] = "v1", "Service"
	bare(out)
	return out
}

// bare removes what the API server and controllers fill in at the top of an object: status and most metadata.
func bare(object map[string]any) {
	delete(object, "status")
	have, metadata := below(object, "metadata"), map[string]any{}
	for _, field := range []string{"name", "namespace", "labels", "annotations"} {
		if value, ok := have[field]; ok {
			metadata[field] = value
		}
	}
	annotations, _ := metadata["annotations"].(map[string]any)
	for _, name := range []string{corev1.LastAppliedConfigAnnotation, "deployment.kubernetes.io/revision", "deprecated.daemonset.template.generation"} {
		delete(annotations, name)
	}
	if len(annotations) == 0 {
		delete(metadata, "annotations")
	}
	object["metadata"] = metadata
}

// manifest returns the manifest of the workload and the path of its pod template; nil if it is not known. That of an
// object in a cluster is without the fields that the API server fills in.
func (w Workload) manifest() (content map[string]any, template []any) {
	if content, ok := w.Object.(map[string]any); ok || w.Object == nil {
		return content, w.Template
	}
	content = asData(w.Object)
	bare(content)
	content["apiVersion"], content["kind"] = "apps/v1", w.Kind
	if w.Kind == "CronJob" || w.Kind == "Job" {
		content["apiVersion"] = "batch/v1"
	}
	object := content
	for _, step := range w.Template {
		name, _ := step.(string)
		object = below(object, name)
	}
	delete(below(object, "metadata"), "creationTimestamp") // null
	return content, w.Template
}

// Unchanged reports whether the Service, apart from its status, has not changed since the plan was made.
func (s *Service) Unchanged(live *corev1.Service) bool {
	return reflect.DeepEqual(manifestOf(live), s.content)
}

// asData returns a deep copy of v as encoding/json reads it.
func asData(v any) map[string]any {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // impossible: it was read from JSON
	}
	out := map[string]any{}
	if err := json.Unmarshal(text, &out); err != nil {
		panic(err)
	}
	return out
}

// below returns the object in a field, and creates it if it is missing.
func below(object map[string]any, field string) map[string]any {
	out, ok := object[field].(map[string]any)
	if !ok {
		out = map[string]any{}
		object[field] = out
	}
	return out
}
