package serving

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/rotator/probe"
)

// Rotation is the latest known change of a Secret's certificate.
type Rotation struct {
	Leaf  string    // fingerprint in the Secret
	Since time.Time // when the Secret got it, to the second
	// Replaced: it replaced another leaf. False for the first known one without a Serving
	// condition: the earlier leaf is unknown.
	Replaced bool
}

// Rotation returns the latest change of the Secret's certificate; false if none is known.
func (k KeyState) Rotation() (Rotation, bool) {
	c := k.certificate
	return Rotation{Leaf: c.leaf, Since: c.since, Replaced: c.fromCondition || len(c.former) > 0}, c.leaf != ""
}

// Serves reports whether the pod was last seen to serve the leaf, and no other.
func (k KeyState) Serves(pod types.UID, leaf string) bool {
	serves := false
	known := k.pods[pod]
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

// Woken records that the kubelet was made to update the pod's files. It returns false if the pod is
// unknown.
func (k KeyState) Woken(pod types.UID, at time.Time) bool {
	known, ok := k.pods[pod]
	if ok {
		next := *known
		next.woken = at
		k.pods[pod] = &next
	}
	return ok
}
