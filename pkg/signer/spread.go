package signer

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// spread returns when a certificate gets other names for which nobody has asked anew: what
// clients accept has changed. That concerns many Secrets at the same time.
func (s Situation) spread() time.Time { return s.Widened.AtOf(s.Secret.Leaf.Sum) }

// sameRequest reports whether the Services say of the certificate that it was issued for
// what they ask for now, so that only the CA can have changed which names it gets.
func (s Situation) sameRequest(asked api.Wanted, members []*corev1.Service) bool {
	for _, svc := range members {
		said, ok := api.ReadyOf(svc)
		if !ok || said.Secret != s.Key.Name || said.Request != asked.Hash() || said.Leaf != s.Secret.Leaf.Fingerprint {
			return false
		}
	}
	return true
}
