package api

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Wanted is what a certificate is to be: what all Services that share its
// Secret ask for together.
type Wanted struct {
	DNSNames []string     // sorted, no duplicates
	IPs      []netip.Addr // sorted, no duplicates
	// FormerNames are names of the Services in cluster domains of before, sorted
	// and without duplicates: a certificate holds as many as it has room for.
	FormerNames []string
	Params      Params
	RenewAfter  time.Time // the latest that any of them asks for
}

// Hash identifies the request in a condition's message. It does not change
// with RenewAfter, which says when and not what, nor with FormerNames, which
// nobody asks for.
func (w Wanted) Hash() string {
	return hashOf(struct {
		DNSNames []string
		IPs      []netip.Addr
		Params   Params
	}{w.DNSNames, w.IPs, w.Params})
}

// Member is a Service and its part in a Wanted.
type Member struct {
	Service *corev1.Service
	// Err is why the Service has no part in it, or nil.
	Err error
}

// OlderFirst orders Services by age; creation times are in seconds, so that the
// name decides between equals.
func OlderFirst(a, b *corev1.Service) int {
	if c := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); c != 0 {
		return c
	}
	return cmp.Compare(a.Name, b.Name)
}

// Merge returns what the Services, which all ask for the same Secret, want
// together, and the part of each, oldest first. The oldest valid Service's
// parameters count; a newer one that asks for others, or would take the names
// over MaxNames, is refused and the rest go on undisturbed. It returns false
// if no Service has a part.
func Merge(services []*corev1.Service, limits Limits) (Wanted, []Member, bool) {
	services = slices.Clone(services)
	slices.SortStableFunc(services, OlderFirst)
	var (
		wanted  Wanted
		first   *corev1.Service
		members = make([]Member, 0, len(services))
	)
	for _, svc := range services {
		r, err := Parse(svc, limits)
		if err == nil && first != nil {
			err = contradiction(first, wanted, r)
		}
		members = append(members, Member{svc, err})
		if err != nil {
			continue
		}
		if first == nil {
			first, wanted.Params = svc, r.Params
		}
		wanted = wanted.With(Wanted{DNSNames: r.DNSNames, IPs: r.IPs, FormerNames: r.FormerNames})
		if r.RenewAfter.After(wanted.RenewAfter) {
			wanted.RenewAfter = r.RenewAfter
		}
	}
	return wanted, members, first != nil
}

// Retained returns what Services want together that ask for nothing, or for
// something that is not allowed, but whose Secret from before is in use: the
// names that each of them may have, without what is wrong, and the defaults.
// Names beyond MaxNames are left out, newest Service first.
func Retained(services []*corev1.Service, limits Limits) Wanted {
	services = slices.Clone(services)
	slices.SortStableFunc(services, OlderFirst)
	wanted := Wanted{Params: Params{KeyAlgorithm: DefaultKeyAlgorithm, Duration: limits.DefaultDuration}}
	for _, svc := range services {
		wanted = wanted.With(allowedOf(svc, limits))
	}
	return wanted
}

// allowedOf returns the names that a Service may have, without what is wrong.
func allowedOf(svc *corev1.Service, limits Limits) Wanted {
	names := ServiceNames(svc, limits.ClusterDomain)
	for _, name := range splitNames(svc.Annotations[AnnotationExtraDNSNames]) {
		if checkExtraName(svc, name, limits) == nil {
			names = append(names, name)
		}
	}
	var r Request
	_ = r.parseIPs(svc, limits) // what is not permitted is not in it
	return Wanted{DNSNames: names, IPs: r.IPs, FormerNames: formerNames(svc, limits)}
}

// With returns what w and others want together: w's parameters, and the names of
// both, unless that would be more than MaxNames; then w as it is.
func (w Wanted) With(other Wanted) Wanted {
	names := union(w.DNSNames, other.DNSNames, cmp.Compare[string])
	if len(names) > MaxNames {
		return w
	}
	w.DNSNames, w.IPs = names, union(w.IPs, other.IPs, netip.Addr.Compare)
	w.FormerNames = union(w.FormerNames, other.FormerNames, cmp.Compare[string])
	return w
}

// contradiction says why a Service that asks for r cannot join what first and
// others already want, or nil.
func contradiction(first *corev1.Service, wanted Wanted, r Request) error {
	if a := r.Asked.KeyAlgorithm; a != "" && a != wanted.Params.KeyAlgorithm {
		return &FieldError{AnnotationKeyAlgorithm, string(a), fmt.Sprintf("Secret %q is shared with Service %q, which is older and has %s", r.SecretName, first.Name, wanted.Params.KeyAlgorithm)}
	}
	if d := r.Asked.Duration; d != 0 && d != wanted.Params.Duration {
		return &FieldError{AnnotationDuration, hours(d), fmt.Sprintf("Secret %q is shared with Service %q, which is older and has %s", r.SecretName, first.Name, hours(wanted.Params.Duration))}
	}
	if n := len(union(wanted.DNSNames, r.DNSNames, cmp.Compare[string])); n > MaxNames {
		return &FieldError{AnnotationSecretName, r.SecretName, fmt.Sprintf("the Services that share it would have %d names together, and a certificate holds at most %d", n, MaxNames)}
	}
	return nil
}

func union[T comparable](a, b []T, order func(T, T) int) []T {
	out := slices.Concat(a, b)
	slices.SortFunc(out, order)
	return slices.Compact(out)
}
