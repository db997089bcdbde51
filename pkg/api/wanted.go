package api

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/formats"
)

// Wanted is what a certificate should contain: the combined request of all Services that
// share its Secret.
type Wanted struct {
	DNSNames []string     // sorted, no duplicates
	IPs      []netip.Addr // sorted, no duplicates
	// FormerNames are the names of the Services in former cluster domains, sorted and
	// without duplicates. A certificate contains as many as it has room for.
	FormerNames []string
	Params      Params
	External    bool        // another issuer writes the Secret
	RenewAfter  time.Time   // the latest that any Service requests
	Formats     formats.Set // additional files that any Service requests in the Secret
	// Password is the password of the Formats, from the oldest Service that requests a format
	// with a password; empty if there is none.
	Password string
}

// Hash returns 16 hex digits that identify the request in a condition. They do not depend
// on RenewAfter, FormerNames, Formats and Password, which do not change the requested
// certificate.
func (w Wanted) Hash() string {
	return hashOf(struct {
		DNSNames []string
		IPs      []netip.Addr
		Params   Params
	}{w.DNSNames, w.IPs, w.Params})
}

// Member is a Service that contributes to a Wanted, or is refused.
type Member struct {
	Service *corev1.Service
	// Err is why the Service is refused, or nil.
	Err error
}

// OlderFirst orders Services by age, and by name if they were created in the same
// second.
func OlderFirst(a, b *corev1.Service) int {
	return cmp.Or(Older(a, b), cmp.Compare(a.Name, b.Name))
}

// Older compares the age of Services in whole seconds: it returns a negative number if a
// is older than b.
func Older(a, b *corev1.Service) int {
	return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
}

// Merge returns the combined request of the Services, which all request the same Secret,
// and a Member for each, oldest first. The parameters are those of the oldest valid
// Service. A newer Service that requests others, or whose names would exceed MaxNames, is
// refused without affecting the others. Merge returns false if all are refused.
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
			first, wanted.Params, wanted.External = svc, r.Params, r.External
		}
		wanted = wanted.with(r)
	}
	return wanted, members, first != nil
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

// Retained returns what the certificate should contain if the Services request nothing, or
// their requests are not valid, but their existing Secret is in use: WithRetained of the
// default parameters.
func Retained(services []*corev1.Service, limits Limits) Wanted {
	wanted, _ := Wanted{Params: Params{KeyAlgorithm: DefaultKeyAlgorithm, Duration: limits.DefaultDuration}}.WithRetained(services, limits)
	return wanted
}

// WithRetained returns w with the permitted names of each of the Services, and with the
// formats that any of them requests. The result has all names of w, and further ones up to
// MaxNames: first the Services' own names, then the extra names from the beginning of each
// list; those of older Services first. mistaken are the formats whose annotations are not valid, as
// [FormatsOf] returns them.
func (w Wanted) WithRetained(services []*corev1.Service, limits Limits) (retained Wanted, mistaken formats.Set) {
	services = slices.Clone(services)
	slices.SortStableFunc(services, OlderFirst)
	names := slices.Clone(w.DNSNames)
	add := func(name string) {
		if len(names) < MaxNames && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, svc := range services {
		for _, name := range serviceNames(svc, limits.ClusterDomain) {
			add(name)
		}
	}
	for _, svc := range services {
		for _, name := range firstExtraNames(svc) {
			if len(names) == MaxNames {
				break // check no further names
			}
			if checkExtraName(svc, name, limits) == nil {
				add(name)
			}
		}
	}
	slices.Sort(names)
	w.DNSNames = names
	for _, svc := range services {
		var r Request
		_ = r.parseIPs(svc, limits) // r has only permitted addresses
		if ips := union(w.IPs, r.IPs, netip.Addr.Compare); len(ips) <= MaxNames {
			w.IPs = ips
		}
		w.FormerNames = union(w.FormerNames, formerNames(svc, limits), cmp.Compare[string])
		asked, notValid := FormatsOf(svc)
		w.Formats |= asked
		mistaken |= notValid
		w.Password = cmp.Or(w.Password, PasswordOf(svc))
	}
	return w, mistaken
}

// with returns w with the valid request of a Service.
func (w Wanted) with(r Request) Wanted {
	w.DNSNames, w.IPs = union(w.DNSNames, r.DNSNames, cmp.Compare[string]), union(w.IPs, r.IPs, netip.Addr.Compare)
	w.FormerNames = union(w.FormerNames, r.FormerNames, cmp.Compare[string])
	w.Formats |= r.Formats
	w.Password = cmp.Or(w.Password, r.Password)
	if r.RenewAfter.After(w.RenewAfter) {
		w.RenewAfter = r.RenewAfter
	}
	return w
}

// contradiction returns an error if a Service that requests r cannot share the Secret for
// which first and others already request wanted.
func contradiction(first *corev1.Service, wanted Wanted, r Request) error {
	if r.External != wanted.External {
		issuer := IssuerServingcert
		if r.External {
			issuer = IssuerExternal
		}
		return &FieldError{AnnotationIssuer, string(issuer), fmt.Sprintf("must be that of the older Service %q, which shares Secret %q", first.Name, r.SecretName)}
	}
	if r.External {
		return nil // nothing is issued, so the names do not count
	}
	if a := r.Asked.KeyAlgorithm; a != "" && a != wanted.Params.KeyAlgorithm {
		return &FieldError{AnnotationKeyAlgorithm, string(a), fmt.Sprintf("must be %s, because Secret %q is shared with the older Service %q", wanted.Params.KeyAlgorithm, r.SecretName, first.Name)}
	}
	if detail := notWithKey(r.Formats, wanted.Params.KeyAlgorithm); detail != "" {
		return &FieldError{AnnotationFormats, strings.Join(r.Formats.Files(), ","), detail + fmt.Sprintf(", and Secret %q is shared with the older Service %q", r.SecretName, first.Name)}
	}
	if d := r.Asked.Duration; d != 0 && d != wanted.Params.Duration {
		return &FieldError{AnnotationDuration, hours(d), fmt.Sprintf("must be %s, because Secret %q is shared with the older Service %q", hours(wanted.Params.Duration), r.SecretName, first.Name)}
	}
	if r.Password != "" && wanted.Password != "" && r.Password != wanted.Password {
		return &FieldError{AnnotationKeystorePassword, hidden(r.Password), fmt.Sprintf("must be the password of the older Services that share Secret %q, such as %q", r.SecretName, first.Name)}
	}
	if n := len(union(wanted.DNSNames, r.DNSNames, cmp.Compare[string])); n > MaxNames {
		return &FieldError{AnnotationSecretName, r.SecretName, fmt.Sprintf("the Services that share this Secret would have %d names together: must be at most %d", n, MaxNames)}
	}
	return nil
}

func union[T comparable](a, b []T, order func(T, T) int) []T {
	out := slices.Concat(a, b)
	slices.SortFunc(out, order)
	return slices.Compact(out)
}
