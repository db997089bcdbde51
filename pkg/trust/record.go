package trust

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// TargetID identifies a target.
type TargetID struct {
	Kind string
	Key  types.NamespacedName
}

// Record is the state that is kept of a target between decisions. Losing it costs a
// write.
type Record struct {
	Evaluation
	hash     string    // of the bundle that it was compared with
	heldHash string    // the last bundle that it held
	wrote    string    // the bundle that was last written to it
	wroteAt  time.Time // and when

	heldAt    time.Time // since when it holds the bundle, if it does
	openSince time.Time // since when it has not held it for steady; zero if it always did
	reported  Reason    // the reason for refusing that was last reported
	lacks     string    // Situation.Lacks, as last reported
	proof     string    // Situation.Proof, while it holds the bundle
}

// Recall returns what the target's own decision found. Proof is what [Proof] returns of the target
// now: if that differs, or the bundle does, the next decision finds whether the target holds it.
func (r Record) Recall(bundle Bundle, proof string) Evaluation {
	if r.hash != bundle.Hash || r.State == StateHolds && r.proof != proof {
		return Differs("the ConfigMap, which has a password of its own, is not yet compared with the CA bundle")
	}
	return r.Evaluation
}
