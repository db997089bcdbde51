package signer

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Plausible reports whether the Secret looks like one that a signer of the instance has
// issued, as far as that can be told without the CA: its label and type, a key and its
// serving certificate, signed by another key, with a name of the Secret's namespace. The
// label alone shows nothing: whoever may write Secrets may write it.
func Plausible(secret *corev1.Secret, instance string) bool {
	f := FactsOf(secret, instance)
	if !f.Labelled || f.Type != corev1.SecretTypeTLS || f.Empty || f.Defect != "" || f.Leaf.Usages != nil {
		return false
	}
	return !f.Leaf.SelfIssued && slices.ContainsFunc(f.Leaf.DNSNames, func(name string) bool {
		_, domain, _ := strings.Cut(name, ".")
		return domain == secret.Namespace+".svc" || strings.HasPrefix(domain, secret.Namespace+".svc.") || strings.HasSuffix(domain, "."+secret.Namespace+".svc")
	})
}
