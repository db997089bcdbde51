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

// Record is what is kept of a target from one look at it to the next. Losing it
// costs a write.
type Record struct {
	Judgement
	hash     string    // of the bundle that it was judged against
	heldHash string    // the last bundle that it was seen to hold
	wrote    string    // the bundle that was last written to it
	wroteAt  time.Time // and when

	heldAt    time.Time // since when it holds the bundle, if it does
	openSince time.Time // since when it has not held it steadily; zero if it always did
	reported  Reason    // why it refuses the bundle, as last reported
	lacks     string    // Situation.Lacks, as last reported
}
