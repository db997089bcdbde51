package api

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// AnnotationKeySource selects where the private keys of a Service's certificates are
// made: its value is a KeySource.
const AnnotationKeySource = Domain + "/key-source"

// A KeySource is a value of AnnotationKeySource.
type KeySource string

// The values of KeySource.
const (
	// KeySourceSecret: by the signer, which writes it into a Secret. The default.
	KeySourceSecret KeySource = "secret"
	// KeySourcePod: where it is used, one for each pod. No Secret is issued.
	KeySourcePod KeySource = "pod"
)

// ReasonPodKeys of condition Ready: the pods of the Service make the keys of their
// certificates. Only the signer writes the condition.
const ReasonPodKeys = "PodKeys"

// KeySourceOf returns the value of the Service's AnnotationKeySource, KeySourceSecret if it
// has none, and a *FieldError if the value is not valid.
func KeySourceOf(svc *corev1.Service) (KeySource, error) {
	value, ok := svc.Annotations[AnnotationKeySource]
	if !ok {
		return KeySourceSecret, nil
	}
	if detail := checkShape(AnnotationKeySource, value); detail != "" {
		return KeySourceSecret, &FieldError{AnnotationKeySource, value, detail}
	}
	return KeySource(value), nil
}

func (r *Request) parseKeySource(svc *corev1.Service, _ Limits) (err error) {
	r.KeySource, err = KeySourceOf(svc)
	return err
}

// namesSecret reports whether the Service must name a Secret, or names one.
func (r *Request) namesSecret() bool {
	return r.KeySource != KeySourcePod || r.SecretName != ""
}

// WantsPodKeys reports whether the Service requests certificates whose keys its pods make.
// It returns false if the annotation is not valid, in which case Parse refuses the Service,
// and if the Service is being deleted.
func WantsPodKeys(svc *corev1.Service) bool {
	source, err := KeySourceOf(svc)
	return err == nil && source == KeySourcePod && svc.DeletionTimestamp == nil
}

// Asks reports whether the Service requests a certificate, with either KeySource.
func Asks(svc *corev1.Service) bool {
	_, secret := Wants(svc)
	return secret || WantsPodKeys(svc)
}

// HasPodKeys reports whether condition Ready of the Service has ReasonPodKeys.
func HasPodKeys(svc *corev1.Service) bool {
	ready := Condition(svc, ConditionReady)
	return ready != nil && ready.Reason == ReasonPodKeys
}

// MergeForPod returns what a certificate of one pod should contain, and a Member for each
// of the Services, which all select the pod, oldest first. The names are those for a
// Secret, except that a wildcard below a headless Service is replaced by the pod's own
// name there, if it has one. A Service whose request is not valid, or whose names would
// exceed MaxNames, is left out without affecting the others. Params are not set, because
// the key already exists. MergeForPod returns false if no Service contributes.
func MergeForPod(pod *corev1.Pod, services []*corev1.Service, limits Limits) (Wanted, []Member, bool) {
	services = slices.Clone(services)
	slices.SortStableFunc(services, OlderFirst)
	var (
		wanted  Wanted
		members = make([]Member, 0, len(services))
		some    bool
	)
	for _, svc := range services {
		r, err := Parse(svc, limits)
		r.DNSNames, r.FormerNames = NamesOfPod(pod, svc, r.DNSNames), NamesOfPod(pod, svc, r.FormerNames)
		if n := len(union(wanted.DNSNames, r.DNSNames, strings.Compare)); err == nil && n > MaxNames {
			err = &FieldError{"metadata.name", svc.Name, fmt.Sprintf("the Services that select the pod would have %d names together: must be at most %d", n, MaxNames)}
		}
		members = append(members, Member{svc, err})
		if err == nil {
			wanted, some = wanted.with(r), true
		}
	}
	return wanted, members, some
}

// NamesOfPod returns the names of the Service that its pod may have. Wildcards below the
// Service become the pod's own name: a pod with a hostname whose subdomain is the Service,
// such as a StatefulSet's, has a DNS record there.
func NamesOfPod(pod *corev1.Pod, svc *corev1.Service, names []string) []string {
	own := ""
	if IsHeadless(svc) && pod.Spec.Subdomain == svc.Name {
		own = pod.Spec.Hostname
	}
	var out []string
	for _, name := range names {
		domain, wildcard := strings.CutPrefix(name, "*.")
		switch {
		case !wildcard || !strings.HasPrefix(domain+".", svc.Name+"."+svc.Namespace+".svc."):
			out = append(out, name)
		case own != "":
			out = append(out, own+"."+domain)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
