package api

import (
	"slices"
	"strings"
)

// A Place is a kind of object on which annotations with the prefix Domain have a meaning.
type Place string

// The places, by the names that messages use.
const (
	OnService   Place = "Service"
	OnPod       Place = "pod"
	OnNamespace Place = "Namespace"
	// OnTarget: a ConfigMap, APIService, CustomResourceDefinition or webhook
	// configuration that may request the CA bundle.
	OnTarget Place = "trust target"
	// OnCAStatus: ConfigMap CAStatusName.
	OnCAStatus Place = "ConfigMap " + CAStatusName
)

// Places returns all places.
func Places() []Place { return []Place{OnService, OnPod, OnNamespace, OnTarget, OnCAStatus} }

// Annotations returns the annotations that people may set on the place, in the order of
// the reference.
func (p Place) Annotations() []string {
	switch p {
	case OnService:
		return slices.Concat([]string{
			AnnotationSecretName, AnnotationIssuer, AnnotationKeySource, AnnotationDuration, AnnotationKeyAlgorithm, AnnotationExtraDNSNames,
			AnnotationClusterIPs, AnnotationRenewAfter, AnnotationBackendTLSPolicy,
		}, FormatAnnotations(), []string{AnnotationKeystorePassword, AnnotationProbe, AnnotationClients}, settingKeys())
	case OnPod:
		keys := make([]string, len(podAnnotations))
		for i, a := range podAnnotations {
			keys[i] = a.key
		}
		return keys
	case OnNamespace:
		return settingKeys()
	case OnTarget:
		return []string{AnnotationInjectCABundle}
	case OnCAStatus:
		return []string{AnnotationRotate, AnnotationRotateMode, AnnotationPromoteDespite, AnnotationInjectCABundle}
	}
	return nil
}

func settingKeys() []string {
	keys := make([]string, len(settings))
	for i, s := range settings {
		keys[i] = s.key
	}
	return keys
}

// Unknown returns the keys of annotations with the prefix Domain that have no meaning on
// the place, sorted. It does not return those that servingcert itself writes on pods.
func (p Place) Unknown(annotations map[string]string) []string {
	var known, unknown []string
	for key := range annotations {
		if !strings.HasPrefix(key, Domain+"/") {
			continue
		}
		if known == nil { // most objects have none of ours
			known = p.Annotations()
			if p == OnPod {
				known = append(known, AnnotationStatus, AnnotationLeaf, AnnotationAdmits)
			}
		}
		if !slices.Contains(known, key) {
			unknown = append(unknown, key)
		}
	}
	slices.Sort(unknown)
	return unknown
}
