package api

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// AnnotationKeySource says where the private keys of a Service's certificates are made:
// its value is a KeySource.
const AnnotationKeySource = Domain + "/key-source"

// A KeySource is a value of AnnotationKeySource.
type KeySource string

// The places where a private key is made.
const (
	// KeySourceSecret: by the signer, which writes it into a Secret. The default.
	KeySourceSecret KeySource = "secret"
	// KeySourcePod: where it is used, one for each pod. No Secret is issued.
	KeySourcePod KeySource = "pod"
)

// ReasonPodKeys of condition Ready: the keys of the Service's certificates are made by
// its pods. Only the signer writes the condition.
const ReasonPodKeys = "PodKeys"

// KeySourceOf returns what AnnotationKeySource of the Service says, KeySourceSecret if it
// has none, and a *FieldError if its value is wrong.
func KeySourceOf(svc *corev1.Service) (KeySource, error) {
	value, ok := svc.Annotations[AnnotationKeySource]
	switch source := KeySource(value); {
	case !ok, source == KeySourceSecret:
		return KeySourceSecret, nil
	case source == KeySourcePod:
		return KeySourcePod, nil
	}
	return KeySourceSecret, &FieldError{AnnotationKeySource, value, fmt.Sprintf("must be %q or %q", KeySourceSecret, KeySourcePod)}
}

func (r *Request) parseKeySource(svc *corev1.Service, _ Limits) (err error) {
	r.KeySource, err = KeySourceOf(svc)
	return err
}

// namesSecret reports whether the Service has to name a Secret, or does so.
func (r *Request) namesSecret() bool {
	return r.KeySource != KeySourcePod || r.SecretName != ""
}

// WantsPodKeys reports whether the Service asks for certificates whose keys its pods
// make. One whose annotation has a wrong value does not; Parse refuses it. A Service that
// is being deleted asks for nothing.
func WantsPodKeys(svc *corev1.Service) bool {
	source, err := KeySourceOf(svc)
	return err == nil && source == KeySourcePod && svc.DeletionTimestamp == nil
}

// Asks reports whether the Service asks for a certificate, with a key of either source.
func Asks(svc *corev1.Service) bool {
	_, secret := Wants(svc)
	return secret || WantsPodKeys(svc)
}

// HasPodKeys reports whether condition Ready of the Service says that its pods make their
// keys.
func HasPodKeys(svc *corev1.Service) bool {
	ready := Condition(svc, ConditionReady)
	return ready != nil && ready.Reason == ReasonPodKeys
}

// MergeForPod returns what a certificate of one pod should contain, and the part of each
// of the Services, which all select the pod, oldest first: the names of each as for a
// Secret, except that a wildcard below a headless Service is replaced by the pod's own
// name there, if it has one. A Service that asks for what is not allowed, or whose names
// would exceed MaxNames, is left out without affecting the rest. Params are not set:
// the key is there already. MergeForPod returns false if no Service has a part.
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

// NamesOfPod returns names of the Service as its pod may have them. Wildcards below the
// Service become the pod's own name: a StatefulSet's pod, or another with a hostname whose
// subdomain is the Service, has a DNS record there.
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
