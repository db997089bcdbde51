package api

import (
	"cmp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Limits on objects that a tenant writes. Each is checked before any work whose cost grows
// with the value. docs/limits.md describes what happens beyond them.
const (
	// MaxNames is the largest number of names in a certificate, and in an annotation.
	MaxNames = 100
	// MaxAnnotation is the largest size of an annotation in bytes: MaxNames names of 253
	// characters, each with a comma and two spaces. Caches keep no more of a value.
	MaxAnnotation = MaxNames * 256
	// MaxMessage is the largest size of a condition's message in bytes. It is the limit of
	// metav1.Condition, which the API server does not enforce for Services.
	MaxMessage = 32 << 10
	// MaxKept is the largest number of earlier Secrets of a Service in the state of its
	// condition: fewer are kept if their names are long. Without the opt-in, the signer keeps only
	// the Secrets in the state.
	MaxKept = 64
	// MaxOwners is the largest number of owner references of a Secret that are kept: those to
	// Services, and as many others.
	MaxOwners = 100
	// MaxMounts is the largest number of Secrets of a pod that are kept, counting those whose
	// key it mounts. It is the number of bits of a uint64.
	MaxMounts = 64
	// MaxSelector is the largest number of labels in a Service's selector, and MaxPorts of its
	// ports. The API server bounds neither, except by the object's size of 1.5 MiB. A Service
	// with more is TooLarge.
	MaxSelector = 64
	MaxPorts    = 256
)

// maxReason is the largest size in bytes of a condition's reason or status that is kept. The API
// server bounds neither for Services.
const maxReason = 128

// maxOpenShift is the largest size in bytes of OpenShift's annotation for the reason why there is
// no certificate.
const maxOpenShift = MaxMessage

// maxContainerNames is the size in bytes of a list of MaxNames container names, each with a comma.
const maxContainerNames = MaxNames * (validation.DNS1123LabelMaxLength + 1)

// MaxProxyPorts is the largest number of ports on which the proxy of a pod listens, and of ports in
// AnnotationProxyProtocol.
const MaxProxyPorts = 16

// maxProxyProtocol is the size in bytes of a list of MaxProxyPorts ports, each with a comma and two
// spaces.
const maxProxyProtocol = MaxProxyPorts * (len("65535") + 3)

// maxProxyResources is the largest size of AnnotationProxyResources in bytes: twice the default's.
const maxProxyResources = 128

// maxValue is the largest size in bytes of an annotation with one short value, such as a duration.
// Parsers repeat the value in their errors.
const maxValue = 64

// truncate returns the value, or a copy of its first most+1 bytes, so that it can still be
// recognized as too long.
func truncate(value string, most int) string {
	if len(value) <= most+1 {
		return value
	}
	return strings.Clone(value[:most+1])
}

// maxAnnotationOf returns how many bytes a cache keeps of an annotation on a Service, a Namespace or
// a Secret, not counting one more to recognize that it is too long; 0 for an unknown annotation.
func maxAnnotationOf(key string) int {
	switch key {
	case AnnotationExtraDNSNames:
		return MaxAnnotation
	case AnnotationContainers:
		return maxContainerNames
	case AnnotationProbe:
		return maxProbe
	case AnnotationMountPath:
		return maxMountPath
	case OpenShiftError, OpenShiftErrorAlpha:
		return maxOpenShift
	case AnnotationSecretName, AnnotationKeySource, AnnotationDuration, AnnotationKeyAlgorithm, AnnotationClusterIPs, AnnotationRenewAfter,
		AnnotationRenewedAfter, AnnotationMode, AnnotationCertFlag, AnnotationKeyFlag, AnnotationHTTPSProbes, AnnotationProxyProtocol, AnnotationProxyResources,
		OpenShiftSecretName, OpenShiftSecretNameAlpha, OpenShiftSignedBy, OpenShiftSignedByAlpha, OpenShiftErrorNum, OpenShiftErrorNumAlpha,
		OpenShiftServiceName, OpenShiftServiceNameAlpha, OpenShiftServiceUID, OpenShiftServiceUIDAlpha, OpenShiftExpiry, OpenShiftExpiryAlpha,
		OpenShiftInjectCABundle, OpenShiftInjectCABundleAlpha, AnnotationInjectCABundle, AnnotationFormats, AnnotationKeystorePassword, AnnotationKeystoreDigest, AnnotationIssuedLeaf, AnnotationBackendTLSPolicy, AnnotationCertificateName:
		return validation.DNS1123SubdomainMaxLength
	}
	if asksForFormat(key) {
		return validation.DNS1123SubdomainMaxLength
	}
	return 0
}

// TruncateAnnotation returns what a cache keeps of the value of an annotation with that key.
func TruncateAnnotation(key, value string) string {
	return truncate(value, cmp.Or(maxAnnotationOf(key), validation.DNS1123SubdomainMaxLength))
}

// Owners returns the owner references of an object that are kept, in order: the first
// MaxOwners to Services, and the first MaxOwners to other objects. References with a name
// that no object can have are left out.
func Owners(references []metav1.OwnerReference) []metav1.OwnerReference {
	var kept []metav1.OwnerReference
	counts := map[bool]int{} // by whether it is a Service
	for _, r := range references {
		isService := r.Kind == "Service" && r.APIVersion == "v1"
		if referenceFits(r) && counts[isService] < MaxOwners {
			counts[isService]++
			kept = append(kept, r)
		}
	}
	return kept
}

// referenceFits reports whether the parts of a reference are no longer than Kubernetes
// allows for objects: a group is a subdomain, a version and a kind are labels.
func referenceFits(r metav1.OwnerReference) bool {
	const name, label = validation.DNS1123SubdomainMaxLength, validation.DNS1123LabelMaxLength
	return len(r.APIVersion) <= name+1+label && len(r.Kind) <= label && len(r.Name) <= name && len(r.UID) <= name
}
