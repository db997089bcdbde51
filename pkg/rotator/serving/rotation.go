package serving

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
)

// Rotation is the latest change of the certificate of a Secret, as far as it is
// known.
type Rotation struct {
	Leaf  string    // fingerprint of what the Secret holds
	Since time.Time // when it became that, to the second
	// Replaced: it took the place of another. False for the first that this process
	// knows of and no Serving condition names: nobody knows what was before.
	Replaced bool
	// Asked is the latest renew-after of the Services, zero if there is none.
	Asked time.Time
	// Due is when the leaf before was due for renewal, zero if no pod was seen to
	// serve it.
	Due time.Time
}

// Rotation returns the latest change of the Secret's certificate; false if none is
// known.
func (m Memory) Rotation() (Rotation, bool) {
	c := m.certificate
	return Rotation{
		Leaf: c.leaf, Since: c.since, Replaced: c.recalled || len(c.former) > 0, Asked: c.asked, Due: c.due,
	}, c.leaf != ""
}

// Serves reports whether the pod was last seen to serve the leaf, and no other one.
func (m Memory) Serves(pod types.UID, leaf string) bool {
	serves := false
	known := m.pods[pod]
	if known == nil {
		return false
	}
	for _, a := range known.answers {
		if a.Kind != probe.TLS {
			continue
		}
		if a.Leaf != leaf {
			return false
		}
		serves = true
	}
	return serves
}

// Woken takes in that the kubelet was made to update the pod's files. It returns
// false if the pod is not remembered.
func (m Memory) Woken(pod types.UID, at time.Time) bool {
	known, ok := m.pods[pod]
	if ok {
		next := *known
		next.woken = at
		m.pods[pod] = &next
	}
	return ok
}

// because returns the certificate with what its change rests on: before is what was
// remembered.
func (c certificate) because(before Memory, services []*corev1.Service) certificate {
	for _, svc := range services {
		if asked, err := api.RenewAfterOf(svc); err == nil && asked.After(c.asked) {
			c.asked = asked
		}
	}
	for _, known := range before.pods {
		for _, a := range known.answers {
			if a.Kind == probe.TLS && a.Leaf == before.certificate.leaf {
				c.due = a.RenewAt
				return c
			}
		}
	}
	return c
}
