package api

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Keep selects what StripService keeps of a Service in addition to its Identity. The zero
// Keep selects nothing.
type Keep struct {
	CreationTimestamp bool
	Annotations       []string // keys
	Conditions        []string // types, in the order in which they are kept, each with its state
	// OpenShiftAnnotation keeps the result of the function OpenShiftAnnotation.
	OpenShiftAnnotation bool
	// Fields of the spec.
	Type, ClusterIP, ClusterIPs, Selector, Ports bool
}

// StripService returns a Service that has only the identity of svc and what keep selects.
// Annotations and messages that are too long are cut one byte beyond their limit. A Service
// that CheckSize rejects keeps neither selector nor ports, and is rejected with the same error.
// StripService does not change svc, and shares maps and slices with it. Stripping the result
// again with the same keep changes nothing.
func StripService(svc *corev1.Service, keep Keep) *corev1.Service {
	kept := &corev1.Service{ObjectMeta: Identity(&svc.ObjectMeta)}
	if keep.CreationTimestamp {
		kept.CreationTimestamp = svc.CreationTimestamp
	}
	kept.Annotations = KeepOnly(svc.Annotations, keep.Annotations)
	if from := OpenShiftAnnotation(svc); keep.OpenShiftAnnotation && from != "" {
		markTranslated.set(kept, from)
	}
	for _, conditionType := range keep.Conditions {
		for _, t := range []string{conditionType, conditionType + StateSuffix} {
			if c := Condition(svc, t); c != nil {
				kept.Status.Conditions = append(kept.Status.Conditions, stripCondition(*c))
			}
		}
	}
	if keep.Type {
		kept.Spec.Type = svc.Spec.Type
	}
	if keep.ClusterIP {
		kept.Spec.ClusterIP = svc.Spec.ClusterIP
	}
	if keep.ClusterIPs {
		kept.Spec.ClusterIPs = svc.Spec.ClusterIPs
	}
	if err := CheckSize(svc); err != nil {
		recordTooLarge(kept, err)
		return kept
	}
	if keep.Selector {
		kept.Spec.Selector = svc.Spec.Selector
	}
	if keep.Ports {
		kept.Spec.Ports = svc.Spec.Ports
	}
	return kept
}

// KeepOnly returns the annotations, or labels, with the keys, as TruncateAnnotation keeps them;
// nil if there are none.
func KeepOnly(have map[string]string, keys []string) map[string]string {
	var out map[string]string
	for _, key := range keys {
		if value, ok := have[key]; ok {
			if out == nil {
				out = map[string]string{}
			}
			out[key] = TruncateAnnotation(key, value)
		}
	}
	return out
}

func stripCondition(c metav1.Condition) metav1.Condition {
	c.Message = truncate(c.Message, MaxMessage)
	c.Reason = truncate(c.Reason, maxReason)
	c.Status = metav1.ConditionStatus(truncate(string(c.Status), maxReason))
	return c
}

// Identity returns what identifies an object and its version: namespace, name,
// UID, resource version, and when it was marked for deletion.
func Identity(m *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace:         m.Namespace,
		Name:              m.Name,
		UID:               m.UID,
		ResourceVersion:   m.ResourceVersion,
		DeletionTimestamp: m.DeletionTimestamp,
	}
}
