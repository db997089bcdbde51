package signer

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// Keep returns the part of a Service that a cache has to keep: the fields that Parse, Merge and
// the conditions read. A Service without a request and without condition Ready has few.
func Keep(svc *corev1.Service) api.Keep {
	keep := api.Keep{
		CreationTimestamp: true, Type: true, ClusterIP: true, ClusterIPs: true,
		Conditions: []string{api.ConditionReady},
		Annotations: []string{
			api.AnnotationSecretName, api.AnnotationIssuer, api.AnnotationDuration, api.AnnotationKeyAlgorithm,
			api.AnnotationExtraDNSNames, api.AnnotationClusterIPs, api.AnnotationRenewAfter, api.AnnotationKeySource,
		},
	}
	keep.Annotations = append(append(keep.Annotations, api.AnnotationKeystorePassword), api.FormatAnnotations()...)
	if api.IsExternal(svc) { // Parse refuses it there; otherwise only the rotator reads it
		keep.Annotations = append(keep.Annotations, api.AnnotationBackendTLSPolicy)
	}
	if keep.OpenShiftAnnotation = api.OpenShiftAnnotation(svc) != ""; keep.OpenShiftAnnotation {
		keep.Annotations = append(keep.Annotations, openShiftServiceKeys...)
	}
	keep.Selector = len(api.KeepOnly(svc.Annotations, keep.Annotations)) > 0
	return keep
}
