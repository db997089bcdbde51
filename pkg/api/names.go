package api

import (
	"crypto/x509"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// IsHeadless reports whether the Service is headless: DNS resolves it to its pods,
// which have their own names below the Service's.
func IsHeadless(svc *corev1.Service) bool { return svc.Spec.ClusterIP == corev1.ClusterIPNone }

// ServiceDomains returns the domains that belong to the Service: SVC.NS.svc and
// SVC.NS.svc.CLUSTERDOMAIN. SVC and SVC.NS are not included: SVC is another Service in
// another namespace, and SVC.NS can be a public host.
func ServiceDomains(svc *corev1.Service, clusterDomain string) []string {
	short := svc.Name + "." + svc.Namespace + ".svc"
	return []string{short, short + "." + clusterDomain}
}

// serviceNames returns the names that are in the Service's certificate by default: its
// domains, and for a headless Service also a wildcard below each.
func serviceNames(svc *corev1.Service, clusterDomain string) []string {
	names := ServiceDomains(svc, clusterDomain)
	if IsHeadless(svc) {
		for _, n := range slices.Clone(names) {
			names = append(names, "*."+n)
		}
	}
	return names
}

// formerNames returns the default names of the Service in the former cluster domains,
// sorted and without duplicates.
func formerNames(svc *corev1.Service, limits Limits) []string {
	if len(limits.FormerDomains) == 0 {
		return nil
	}
	var names []string
	for _, domain := range limits.FormerDomains {
		names = union(names, serviceNames(svc, domain), strings.Compare)
	}
	now := serviceNames(svc, limits.ClusterDomain)
	return slices.DeleteFunc(names, func(name string) bool { return slices.Contains(now, name) })
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

// SuffixRule permits the namespaces that match a glob to request names in a domain
// outside the cluster.
type SuffixRule struct {
	NamespaceGlob string // a pattern of path.Match
	Suffix        string // a DNS name, permitted with all names below it
}

// ParseSuffixRule parses NAMESPACE-GLOB=SUFFIX, a value of --permit-dns-suffix. It
// rejects a suffix that equals, contains or is inside svc or the cluster domain,
// which would let one namespace get the names of Services in another.
func ParseSuffixRule(s, clusterDomain string) (SuffixRule, error) {
	glob, suffix, ok := strings.Cut(s, "=")
	if !ok || glob == "" || suffix == "" {
		return SuffixRule{}, fmt.Errorf("%q: must be NAMESPACE-GLOB=SUFFIX, such as team-*=apps.example.com", s)
	}
	if _, err := path.Match(glob, "x"); err != nil {
		return SuffixRule{}, fmt.Errorf("%q: namespace glob %q is not valid: %w", s, glob, err)
	}
	if err := CheckSuffix(suffix, clusterDomain); err != nil {
		return SuffixRule{}, fmt.Errorf("%q: %w", s, err)
	}
	return SuffixRule{NamespaceGlob: glob, Suffix: suffix}, nil
}

// CheckSuffix returns an error if the suffix must not permit names.
func CheckSuffix(suffix, clusterDomain string) error {
	if errs := validation.IsDNS1123Subdomain(suffix); len(errs) > 0 {
		return fmt.Errorf("suffix %q is not a valid DNS name: %s", suffix, strings.Join(errs, "; "))
	}
	if looksLikeIP(suffix) {
		return fmt.Errorf("suffix %q is an IP address: must be a DNS name", suffix)
	}
	for _, own := range []string{"svc", clusterDomain} {
		if within(suffix, own) || within(own, suffix) {
			return fmt.Errorf("suffix %q overlaps %q, which contains the names of Services: must be a domain outside the cluster", suffix, own)
		}
	}
	return nil
}

// String returns the rule in the form that ParseSuffixRule parses.
func (r SuffixRule) String() string { return r.NamespaceGlob + "=" + r.Suffix }

func (r SuffixRule) permits(namespace, name string) bool {
	ok, err := path.Match(r.NamespaceGlob, namespace)
	return err == nil && ok && within(name, r.Suffix)
}

// within reports whether name is domain or a name below it.
func within(name, domain string) bool {
	return name == domain || strings.HasSuffix(name, "."+domain)
}

// ExtraNames returns the names in AnnotationExtraDNSNames of the Service, not validated,
// or a *FieldError if there are too many.
func ExtraNames(svc *corev1.Service) ([]string, error) {
	value, ok := svc.Annotations[AnnotationExtraDNSNames]
	if !ok {
		return nil, nil
	}
	if detail := checkList(value, MaxAnnotation); detail != "" {
		return nil, &FieldError{AnnotationExtraDNSNames, value, detail}
	}
	return splitNames(value), nil
}

// MissingNames returns names with which clients reach the Service, and which the leaf does not have, whoever issued it.
// Of AnnotationExtraDNSNames every name is needed; listed is true then. Without it one of the Service's own names is
// enough, since an issuer need not know the cluster domain. An annotation that is not valid is reported elsewhere.
func MissingNames(svc *corev1.Service, clusterDomain string, leaf *x509.Certificate) (missing []string, listed bool) {
	covers := func(name string) bool {
		return slices.Contains(leaf.DNSNames, name) || leaf.VerifyHostname(name) == nil
	}
	extra, err := ExtraNames(svc)
	if err != nil {
		return nil, true
	}
	if len(extra) > 0 {
		return slices.DeleteFunc(extra, covers), true
	}
	own := append(ServiceDomains(svc, clusterDomain), svc.Name+"."+svc.Namespace, svc.Name)
	if slices.ContainsFunc(own, covers) {
		return nil, false
	}
	return own, false
}

// firstExtraNames returns the first MaxNames names of ExtraNames.
func firstExtraNames(svc *corev1.Service) []string {
	value, ok := svc.Annotations[AnnotationExtraDNSNames]
	if !ok {
		return nil
	}
	if len(value) > MaxAnnotation {
		value = value[:strings.LastIndexByte(value[:MaxAnnotation], ',')+1] // the last name may be cut
	}
	names := strings.SplitN(value, ",", MaxNames+1)
	names = names[:min(len(names), MaxNames)]
	for i, name := range names {
		names[i] = strings.TrimSpace(name)
	}
	return names
}

// checkExtraName returns an error if the Service must not get the name.
func checkExtraName(svc *corev1.Service, name string, limits Limits) error {
	base := strings.TrimPrefix(name, "*.")
	switch {
	case len(base) > validation.DNS1123SubdomainMaxLength:
		return fmt.Errorf("must be at most %d characters", validation.DNS1123SubdomainMaxLength)
	case name == "":
		return errors.New("contains an empty name: must be a comma-separated list of DNS names")
	case looksLikeIP(name):
		return errors.New("is an IP address: must be a DNS name; for the Service's own addresses, set " + AnnotationClusterIPs)
	case strings.Contains(base, "*"):
		return errors.New("a wildcard must be the whole first label, such as *.example.com")
	}
	// The shape includes that of a DNS name, so a valid name costs one regular expression.
	detail := shapes[AnnotationExtraDNSNames].checkEntry(name)
	if detail != "" {
		if errs := validation.IsDNS1123Subdomain(base); len(errs) > 0 {
			return errors.New("not a valid DNS name: " + strings.Join(errs, "; "))
		}
	}
	if len(name) > validation.DNS1123SubdomainMaxLength {
		return fmt.Errorf("must be at most %d characters", validation.DNS1123SubdomainMaxLength)
	}
	for label := range strings.SplitSeq(base, ".") {
		if len(label) > validation.DNS1123LabelMaxLength {
			return fmt.Errorf("label %q: must be at most %d characters", Shorten(label, maxShownValue), validation.DNS1123LabelMaxLength)
		}
	}
	if detail != "" {
		return errors.New(detail)
	}
	return checkOwner(svc, base, limits)
}

// checkOwner returns an error if the name is neither below the Service nor permitted. A suffix may
// contain a former cluster domain, where Services still have their names: it permits none of these.
func checkOwner(svc *corev1.Service, base string, limits Limits) error {
	for _, clusterDomain := range append([]string{limits.ClusterDomain}, limits.FormerDomains...) {
		for _, domain := range ServiceDomains(svc, clusterDomain) {
			if within(base, domain) {
				return nil
			}
		}
	}
	if limits.PermitAllNames {
		return nil
	}
	own := strings.Join(ServiceDomains(svc, limits.ClusterDomain), " or ")
	for _, former := range limits.FormerDomains {
		if within(base, "svc."+former) {
			return fmt.Errorf("not permitted: svc.%s has the names of Services in a former cluster domain: must be below %s", former, own)
		}
	}
	for _, rule := range limits.PermitDNSSuffixes {
		if rule.permits(svc.Namespace, base) {
			return nil
		}
	}
	return fmt.Errorf("not permitted: must be below %s, or below a suffix that the signer permits for namespace %q%s",
		own, svc.Namespace, permittedSuffixes(svc.Namespace, limits.PermitDNSSuffixes))
}

func permittedSuffixes(namespace string, rules []SuffixRule) string {
	var permitted []string
	for _, r := range rules {
		if ok, err := path.Match(r.NamespaceGlob, namespace); err == nil && ok {
			permitted = append(permitted, r.Suffix)
		}
	}
	if len(permitted) == 0 {
		return " (none)"
	}
	return " (" + strings.Join(permitted, ", ") + ")"
}
