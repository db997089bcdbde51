package api

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// MaxNames is how many names one certificate may hold.
const MaxNames = 100

// IsHeadless reports whether DNS resolves the Service to its pods, which then
// have names of their own below the Service's.
func IsHeadless(svc *corev1.Service) bool { return svc.Spec.ClusterIP == corev1.ClusterIPNone }

// ServiceDomains returns the domains that belong to the Service: SVC.NS.svc and
// SVC.NS.svc.CLUSTERDOMAIN. Never SVC or SVC.NS: a one-label name means another
// Service in another namespace, and a two-label one can be a public host.
func ServiceDomains(svc *corev1.Service, clusterDomain string) []string {
	short := svc.Name + "." + svc.Namespace + ".svc"
	return []string{short, short + "." + clusterDomain}
}

// ServiceNames returns the names that the Service has without asking: its
// domains, and for a headless Service what is below them.
func ServiceNames(svc *corev1.Service, clusterDomain string) []string {
	names := ServiceDomains(svc, clusterDomain)
	if IsHeadless(svc) {
		for _, n := range slices.Clone(names) {
			names = append(names, "*."+n)
		}
	}
	return names
}

// formerNames returns the names that the Service has in cluster domains of
// before, sorted and without duplicates.
func formerNames(svc *corev1.Service, limits Limits) []string {
	var names []string
	for _, domain := range limits.FormerDomains {
		names = union(names, ServiceNames(svc, domain), strings.Compare)
	}
	now := ServiceNames(svc, limits.ClusterDomain)
	return slices.DeleteFunc(names, func(name string) bool { return slices.Contains(now, name) })
}

// SuffixRule permits the namespaces that match a glob to ask for names in a
// domain outside the cluster's.
type SuffixRule struct {
	NamespaceGlob string // as path.Match takes it
	Suffix        string // a DNS name: itself and all below it are permitted
}

// ParseSuffixRule reads NAMESPACE-GLOB=SUFFIX, the form of --permit-dns-suffix.
// A suffix that equals, contains or lies in svc or the cluster domain is
// refused: it would let one namespace have the names of another's Services.
func ParseSuffixRule(s, clusterDomain string) (SuffixRule, error) {
	glob, suffix, ok := strings.Cut(s, "=")
	if !ok || glob == "" || suffix == "" {
		return SuffixRule{}, fmt.Errorf("%q: must be NAMESPACE-GLOB=SUFFIX, such as team-*=apps.example.com", s)
	}
	if _, err := path.Match(glob, "x"); err != nil {
		return SuffixRule{}, fmt.Errorf("%q: %q is no glob: %w", s, glob, err)
	}
	if errs := validation.IsDNS1123Subdomain(suffix); len(errs) > 0 {
		return SuffixRule{}, fmt.Errorf("%q: %q is no DNS name: %s", s, suffix, strings.Join(errs, "; "))
	}
	if looksLikeIP(suffix) {
		return SuffixRule{}, fmt.Errorf("%q: %q is no DNS name but an IP address", s, suffix)
	}
	for _, own := range []string{"svc", clusterDomain} {
		if within(suffix, own) || within(own, suffix) {
			return SuffixRule{}, fmt.Errorf("%q: %q overlaps %q, where the names of Services are: only domains outside the cluster may be permitted", s, suffix, own)
		}
	}
	return SuffixRule{NamespaceGlob: glob, Suffix: suffix}, nil
}

// String returns the form that ParseSuffixRule reads.
func (r SuffixRule) String() string { return r.NamespaceGlob + "=" + r.Suffix }

func (r SuffixRule) permits(namespace, name string) bool {
	ok, err := path.Match(r.NamespaceGlob, namespace)
	return err == nil && ok && within(name, r.Suffix)
}

// within reports whether name is domain or lies below it.
func within(name, domain string) bool {
	return name == domain || strings.HasSuffix(name, "."+domain)
}

// checkExtraName says why the Service may not have name, or nil.
func checkExtraName(svc *corev1.Service, name string, limits Limits) error {
	base := strings.TrimPrefix(name, "*.")
	switch {
	case name == "":
		return errors.New("an empty name: must be DNS names separated by commas")
	case looksLikeIP(name):
		return errors.New("an IP address is no DNS name; " + AnnotationClusterIPs + " asks for the Service's own")
	case strings.Contains(base, "*"):
		return errors.New("a wildcard may only be the whole first label, as in *.example.com")
	}
	if errs := validation.IsDNS1123Subdomain(base); len(errs) > 0 {
		return errors.New("no DNS name: " + strings.Join(errs, "; "))
	}
	if len(name) > validation.DNS1123SubdomainMaxLength {
		return fmt.Errorf("longer than %d characters", validation.DNS1123SubdomainMaxLength)
	}
	for label := range strings.SplitSeq(base, ".") {
		if len(label) > validation.DNS1123LabelMaxLength {
			return fmt.Errorf("label %q is longer than %d characters", label, validation.DNS1123LabelMaxLength)
		}
	}
	for _, clusterDomain := range append([]string{limits.ClusterDomain}, limits.FormerDomains...) {
		for _, domain := range ServiceDomains(svc, clusterDomain) {
			if within(base, domain) {
				return nil
			}
		}
	}
	for _, rule := range limits.PermitDNSSuffixes {
		if rule.permits(svc.Namespace, base) {
			return nil
		}
	}
	return fmt.Errorf("not permitted: must be below %s, or below a suffix that the signer permits to namespace %q%s",
		strings.Join(ServiceDomains(svc, limits.ClusterDomain), " or "), svc.Namespace, permittedSuffixes(svc.Namespace, limits.PermitDNSSuffixes))
}

func permittedSuffixes(namespace string, rules []SuffixRule) string {
	var permitted []string
	for _, r := range rules {
		if ok, err := path.Match(r.NamespaceGlob, namespace); err == nil && ok {
			permitted = append(permitted, r.Suffix)
		}
	}
	if len(permitted) == 0 {
		return " (none is)"
	}
	return " (" + strings.Join(permitted, ", ") + ")"
}
