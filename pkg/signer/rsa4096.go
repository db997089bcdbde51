package signer

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

// keepsRSA4096 reports whether the Secret keeps its RSA4096 key for one of the Services
// that have a part in it, although new ones are not permitted.
func keepsRSA4096(s Situation, services []*corev1.Service) bool {
	return s.Secret != nil && s.Secret.Leaf.KeyAlgorithm == pki.RSA4096 && !s.Limits.PermitRSA4096 &&
		slices.ContainsFunc(services, func(svc *corev1.Service) bool {
			return svc.Annotations[api.AnnotationKeyAlgorithm] == string(pki.RSA4096)
		})
}
