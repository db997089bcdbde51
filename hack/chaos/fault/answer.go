package fault

import (
	"net/http"
)

// Answer is what happens to a request.
type Answer int

// The answers. All but the first are faults.
const (
	Pass     Answer = iota // as the API server answers
	Busy                   // 429, try again after a second
	Conflict               // 409 to a write: somebody else wrote
	Broken                 // 500
	Silent                 // nothing, until the connection ends after some seconds
	Cut                    // the connection ends before the request was read
	Unheard                // the request is carried out, and the connection ends before the answer
	answers
)

// String names it.
func (a Answer) String() string {
	return [answers]string{"passed", "429", "409", "500", "no answer", "connection cut", "answer lost"}[a]
}

// Choose returns what happens to a request where a share of them fails, from two numbers of
// [0,1). Reads have no conflicts, and are not carried out unheard: they have no effect.
func Choose(method string, share, u, v float64) Answer {
	if u >= share {
		return Pass
	}
	faults := []Answer{Busy, Broken, Silent, Cut}
	if method != http.MethodGet {
		faults = append(faults, Conflict, Unheard)
	}
	return faults[int(v*float64(len(faults)))]
}
