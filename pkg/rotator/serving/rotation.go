package serving

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/rotator/probe"
)

// Rotation is the latest known change of a Secret's certificate.
type Rotation struct {
	Leaf  string    // fingerprint in the Secret
	Chain string    // what pods have to send with it, if that changed while the leaf stayed, or ""
	Since time.Time // when the Secret got both, to the second
	// Replaced: it replaced another leaf, or chain. False for the first known one without a Serving
	// condition: the earlier leaf is unknown.
	Replaced bool
}

// Rotation returns the latest change of the Secret's certificate; false if none is known.
func (k KeyState) Rotation() (Rotation, bool) {
	c := k.certificate
	r := Rotation{Leaf: c.leaf, Since: c.since, Replaced: c.fromCondition || c.corrected || len(c.former) > 0}
	if c.corrected {
		r.Chain = strings.Join(c.paths, " ")
	}
	return r, c.leaf != ""
}

// Serves reports whether the pod was last seen to serve the leaf, with what has to be sent with it, and no other.
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
		if a.Leaf != leaf || !k.certificate.linked(a) {
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
