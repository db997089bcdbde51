package api

import (
	"cmp"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Limits of what is read of objects that a tenant writes. Each is checked before anything
// is done whose cost grows with the value. docs/limits.md says what happens beyond them.
const (
	// MaxNames is how many names one certificate may hold, and how many names an
	// annotation may list.
	MaxNames = 100
	// MaxAnnotation is the most bytes of an annotation that is read: MaxNames names of
	// 253 characters, each with a comma and two spaces. Caches hold no more of a value.
	MaxAnnotation = MaxNames * 256
	// MaxMessage is the most bytes of a condition's message that is read or written.
	// It is the limit of metav1.Condition, which the API server does not enforce for
	// Services.
	MaxMessage = 32 << 10
	// MaxKept is how many Secrets that a Service asked for before its condition names, and
	// MaxReadyState how many bytes the state beside that condition has at most: fewer are named
	// if their names are long. Without the opt-in, the signer keeps only those that are named.
	MaxKept       = 64
	MaxReadyState = 8 << 10
	// MaxOwners is the most owner references that are remembered of a Secret: those to
	// Services, and as many others.
	MaxOwners = 100
	// MaxMounts is the most Secrets whose key a pod mounts that are remembered of it. It
	// is how many bits a uint64 has.
	MaxMounts = 64
	// MaxSelector is the most labels in the selector of a Service, and MaxPorts the most ports of
	// one. The API server bounds neither: it takes what fits into 1.5 MiB. A Service with more is
	// TooLarge.
	MaxSelector = 64
	MaxPorts    = 256
)

// maxReason is the most bytes of a condition's reason or status that are remembered. The API
// server bounds neither for Services.
const maxReason = 128

// maxOpenShift is the most bytes of an annotation in which the signer writes, as OpenShift does,
// why there is no certificate.
const maxOpenShift = MaxMessage

// maxContainerNames is the most bytes of a list of MaxNames names of containers, each
// with a comma.
const maxContainerNames = MaxNames * (validation.DNS1123LabelMaxLength + 1)

// MaxProxyPorts is on how many ports the proxy of a pod listens, and how many ports
// AnnotationProxyProtocol lists, at most.
const MaxProxyPorts = 16

// maxProxyProtocol is the most bytes of a list of MaxProxyPorts ports, each with a comma and two
// spaces.
const maxProxyProtocol = MaxProxyPorts * (len("65535") + 3)

// maxProxyResources is the most bytes of AnnotationProxyResources: twice those of the default.
const maxProxyResources = 128

// maxValue is the most bytes of an annotation that holds one short value, such as a
// duration. What parses it repeats it in its error.
const maxValue = 64

// checkLength returns what is wrong with a value that is longer than most bytes, or "".
func checkLength(value string, most int) (detail string) {
	switch cut := validation.DNS1123SubdomainMaxLength + 1; { // how much of it caches keep: see truncate
	case len(value) <= most:
		return ""
	case len(value) == cut:
		return fmt.Sprintf("more than %d bytes: must be at most %d", cut-1, most)
	}
	return fmt.Sprintf("%d bytes: must be at most %d", len(value), most)
}

// checkList returns what is wrong with the length of a comma-separated list, or "". It does
// not look at the entries.
func checkList(value string, most int) (detail string) {
	if detail := checkLength(value, most); detail != "" {
		return detail
	}
	return checkCount(value, MaxNames, "names")
}

// checkCount returns what is wrong with the number of entries of a comma-separated list, or "".
func checkCount(value string, most int, entries string) (detail string) {
	if n := strings.Count(value, ",") + 1; n > most {
		return fmt.Sprintf("%d %s: must be at most %d", n, entries, most)
	}
	return ""
}

// truncate returns the value, or a copy of its beginning that is one byte longer than most
// bytes, so that it is still seen to be too long.
func truncate(value string, most int) string {
	if len(value) <= most+1 {
		return value
	}
	return strings.Clone(value[:most+1])
}

// maxAnnotationOf returns the most bytes of an annotation on a Service, a Namespace or a Secret
// that a cache keeps, but for one more, by which it is seen to be too long; 0 for an annotation
// that means nothing there.
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
		TranslatedFrom, OpenShiftSecretName, OpenShiftSecretNameAlpha, OpenShiftSignedBy, OpenShiftSignedByAlpha, OpenShiftErrorNum, OpenShiftErrorNumAlpha,
		OpenShiftServiceName, OpenShiftServiceNameAlpha, OpenShiftServiceUID, OpenShiftServiceUIDAlpha, OpenShiftExpiry, OpenShiftExpiryAlpha,
		OpenShiftInjectCABundle, OpenShiftInjectCABundleAlpha, AnnotationInjectCABundle, AnnotationFormats, AnnotationKeystorePassword, AnnotationKeystoreDigest, AnnotationBackendTLSPolicy:
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

// Owners returns what is remembered of an object's owner references, in their order: the
// first MaxOwners to Services, and the first MaxOwners to other objects. One with a name
// that no such object can have is left out.
func Owners(references []metav1.OwnerReference) []metav1.OwnerReference {
	if ownersFit(references) {
		return references
	}
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

func ownersFit(references []metav1.OwnerReference) bool {
	for _, r := range references {
		if !referenceFits(r) {
			return false
		}
	}
	return len(references) <= MaxOwners
}

// referenceFits reports whether the parts of a reference are no longer than Kubernetes
// allows for objects: a group is a subdomain, a version and a kind are labels.
func referenceFits(r metav1.OwnerReference) bool {
	const name, label = validation.DNS1123SubdomainMaxLength, validation.DNS1123LabelMaxLength
	return len(r.APIVersion) <= name+1+label && len(r.Kind) <= label && len(r.Name) <= name && len(r.UID) <= name
}
