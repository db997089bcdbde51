package plan

import (
	"encoding/json"
	"reflect"

	corev1 "k8s.io/api/core/v1"
)

// Complete returns the whole Service with what the plan adds, as a manifest for a repository; nil if
// nothing is added. Part of a Service is safe with kubectl patch only: where kubectl apply
// --server-side meets fields that an earlier kubectl apply wrote, it takes those over and then
// removes the ones that are missing from the part.
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
		if have := portOf(ports, added.Port); have != nil { // it lacks a name
			have["name"] = added.Name
			continue
		}
		ports = append(ports, map[string]any{"name": added.Name, "port": added.Port, "protocol": added.Protocol, "targetPort": added.TargetPort})
	}
	spec["ports"] = ports
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

// manifestOf returns a Service of a cluster as its owner would write it: without what the API server and its
// controllers fill in. Node ports are kept, as they may have been chosen.
func manifestOf(svc *corev1.Service) map[string]any {
	svc = svc.DeepCopy()
	delete(svc.Annotations, corev1.LastAppliedConfigAnnotation)
	if svc.Spec.ClusterIP != corev1.ClusterIPNone {
		svc.Spec.ClusterIP, svc.Spec.ClusterIPs = "", nil
	}
	out := asData(svc)
	delete(out, "status")
	out["apiVersion"], out["kind"] = "v1", "Service"
	metadata := map[string]any{"name": svc.Name, "namespace": svc.Namespace}
	for _, field := range []string{"labels", "annotations"} {
		if value, ok := below(out, "metadata")[field]; ok {
			metadata[field] = value
		}
	}
	out["metadata"] = metadata
	return out
}

// Unchanged reports whether the Service is still as it was when the plan was made, but for its status.
func (s *Service) Unchanged(live *corev1.Service) bool {
	return reflect.DeepEqual(manifestOf(live), s.content)
}

// asData returns a deep copy of v as encoding/json reads it.
func asData(v any) map[string]any {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // it was read from JSON
	}
	out := map[string]any{}
	if err := json.Unmarshal(text, &out); err != nil {
		panic(err)
	}
	return out
}

// below returns the object in a field, which it makes if there is none.
func below(object map[string]any, field string) map[string]any {
	out, ok := object[field].(map[string]any)
	if !ok {
		out = map[string]any{}
		object[field] = out
	}
	return out
}
