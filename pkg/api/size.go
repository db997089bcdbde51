package api

import (
	"cmp"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ReasonTooLarge of condition Ready: the Service exceeds a bound of what is remembered of one
// Service, or its namespace, or the cluster, one of what is remembered of all of them.
const ReasonTooLarge = "TooLarge"

// TooLargeError reports that more would have to be remembered of a Service than the limits let.
type TooLargeError struct{ FieldError }

// Unwrap returns the FieldError.
func (e *TooLargeError) Unwrap() error { return &e.FieldError }

// Reason returns ReasonTooLarge.
func (e *TooLargeError) Reason() string { return ReasonTooLarge }

// TooLarge is the key under which a Service of a cache says which bound it exceeds: field, value
// and detail of the error, each on a line. Like TranslatedFrom, it is a key that the API server
// accepts on no object.
const TooLarge = "too large"

// CheckSize returns a *TooLargeError if the Service exceeds a bound of what is remembered of one,
// or of what is remembered of all, or nil. Such a Service selects no pod and is issued no
// certificate; what it has goes on.
func CheckSize(svc *corev1.Service) error {
	if said, ok := svc.Annotations[TooLarge]; ok {
		field, rest, _ := strings.Cut(said, "\n")
		value, detail, _ := strings.Cut(rest, "\n")
		return &TooLargeError{FieldError{field, value, detail}}
	}
	if n := len(svc.Spec.Selector); n > MaxSelector {
		return &TooLargeError{FieldError{"spec.selector", fmt.Sprintf("%d labels", n), fmt.Sprintf("must be at most %d", MaxSelector)}}
	}
	if n := len(svc.Spec.Ports); n > MaxPorts {
		return &TooLargeError{FieldError{"spec.ports", fmt.Sprintf("%d ports", n), fmt.Sprintf("must be at most %d", MaxPorts)}}
	}
	return nil
}

// markTooLarge has a stripped Service say what CheckSize returned of it.
func markTooLarge(svc *corev1.Service, err error) {
	e, ok := err.(*TooLargeError) //nolint:errorlint // CheckSize returns no other
	if ok {
		metav1.SetMetaDataAnnotation(&svc.ObjectMeta, TooLarge, e.Field+"\n"+e.Value+"\n"+e.Detail)
	}
}

// A Share is how many bytes may be remembered of the objects of one kind: of those of one
// namespace, and of all.
type Share struct{ Namespace, Cluster int64 }

// ShareOf returns the Share of a process that may remember so many bytes of all objects of one
// kind, MaxObjectMemory if it is 0: two thirds of it for one namespace.
func ShareOf(cluster int64) Share {
	cluster = cmp.Or(cluster, MaxObjectMemory)
	return Share{Namespace: cluster / 3 * 2, Cluster: cluster}
}

// Reduce returns what is remembered of a stripped Service that exceeds the share: who it is, what
// it asks for in short annotations, and its condition Ready with the state, but not which pods it selects. It returns
// an object of at most MaxReduced bytes. Reducing it again changes nothing.
func Reduce(svc *corev1.Service, share Share) *corev1.Service {
	if IsReduced(svc) {
		return svc
	}
	kept := *svc
	kept.Annotations, kept.Spec.Selector, kept.Spec.Ports, kept.Status.Conditions = nil, nil, nil, nil
	for key, value := range svc.Annotations {
		if len(value) <= maxAnnotationOf(AnnotationSecretName) && key != TooLarge {
			metav1.SetMetaDataAnnotation(&kept.ObjectMeta, key, value)
		}
	}
	for _, c := range svc.Status.Conditions {
		switch {
		case c.Type == ConditionReady:
			c.Message = truncate(c.Message, maxReducedMessage)
			kept.Status.Conditions = append(kept.Status.Conditions, c)
		case c.Type == ConditionReady+StateSuffix && len(c.Message) <= MaxReadyState:
			kept.Status.Conditions = append(kept.Status.Conditions, c)
		}
	}
	markTooLarge(&kept, &TooLargeError{FieldError{fieldOfShare, svc.Namespace, fmt.Sprintf(
		"more would be remembered of its Services than there is room for: at most %s of those of one namespace, the oldest first, and %s of all, where those of the largest namespaces come last; use fewer or smaller Services, or raise --object-memory",
		mebibytes(share.Namespace), mebibytes(share.Cluster))}})
	return &kept
}

// fieldOfShare is the field of the error of a Service that exceeds a Share.
const fieldOfShare = "metadata.namespace"

// IsReduced reports whether Reduce returned the Service.
func IsReduced(svc *corev1.Service) bool {
	return strings.HasPrefix(svc.Annotations[TooLarge], fieldOfShare+"\n")
}

func mebibytes(n int64) string { return fmt.Sprintf("%.4gMi", float64(n)/(1<<20)) }

// Sizes in memory, in bytes, beside texts: of a Service without anything, in the caches of a
// process, of what an allocation is rounded up by, of a map of up to eight texts and of an entry of a larger one,
// of a port, of a condition.
const (
	sizeService   = 960
	sizeRounding  = 16
	sizeMap       = 320
	sizeEntry     = 96
	sizePort      = 128
	sizeCondition = 128
)

// sizeOfMap returns the size of a map of n texts.
func sizeOfMap(n int) int64 {
	switch {
	case n == 0:
		return 0
	case n <= 8:
		return sizeMap
	}
	return int64(sizeMap + n*sizeEntry)
}

// SizeOfService returns how many bytes a process needs at most to remember what StripService
// keeps of the Service; 0 if nothing on it is servingcert's, so that next to nothing is kept. It
// is the same for all processes.
func SizeOfService(svc *corev1.Service) int64 {
	var n int64
	annotations := 0
	for key, value := range svc.Annotations {
		if most := maxAnnotationOf(key); most > 0 {
			annotations++
			n += int64(2*sizeRounding + len(key) + min(len(value), most+1))
		}
	}
	n += sizeOfMap(annotations)
	for i := range svc.Status.Conditions {
		if c := &svc.Status.Conditions[i]; strings.HasPrefix(c.Type, Domain+"/") {
			n += int64(sizeCondition + min(len(c.Message), MaxMessage+1) + min(len(c.Reason), maxReason+1))
		}
	}
	if n == 0 {
		return 0
	}
	n += int64(sizeService + len(svc.Namespace) + 2*len(svc.Name)) // of indices, too
	if CheckSize(svc) != nil {
		return n
	}
	n += sizeOfMap(len(svc.Spec.Selector))
	for key, value := range svc.Spec.Selector {
		n += int64(2*sizeRounding + len(key) + len(value))
	}
	for i := range svc.Spec.Ports {
		p := &svc.Spec.Ports[i]
		n += int64(sizePort + len(p.Name) + len(p.TargetPort.StrVal))
		if p.AppProtocol != nil {
			n += int64(2*sizeRounding + len(*p.AppProtocol))
		}
	}
	return n
}
