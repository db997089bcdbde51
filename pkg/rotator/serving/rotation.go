package serving

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

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
}

// Rotation returns the latest change of the Secret's certificate; false if none is
// known.
func (m Memory) Rotation() (Rotation, bool) {
	c := m.certificate
	return Rotation{Leaf: c.leaf, Since: c.since, Replaced: c.recalled || len(c.former) > 0}, c.leaf != ""
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
