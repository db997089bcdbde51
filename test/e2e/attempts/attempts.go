// Package attempts sums up attempts at something that is refused for a while. The
// end-to-end scenes measure with it for how long no pods can be created.
package attempts

import "time"

// Attempt is one attempt, and what came of it.
type Attempt struct {
	At      time.Time // when it was begun
	Refused bool
}

// Summary is what came of attempts.
type Summary struct {
	Attempts, Refused int
	// First and Last are when the first and the last refused attempt were begun; zero
	// if none was refused.
	First, Last time.Time
	// Longest is the longest time without an accepted attempt: from the first refused
	// attempt to the next that was accepted or, if there is none, to the last refused.
	Longest time.Duration
}

// Sum sums up attempts, the oldest first.
func Sum(all []Attempt) Summary {
	s := Summary{Attempts: len(all)}
	var since time.Time // of the first refused attempt after one that was accepted
	for _, a := range all {
		if a.Refused {
			s.Refused++
			s.Last = a.At
			if s.First.IsZero() {
				s.First = a.At
			}
			if since.IsZero() {
				since = a.At
			}
		}
		if !since.IsZero() {
			s.Longest = max(s.Longest, a.At.Sub(since))
		}
		if !a.Refused {
			since = time.Time{}
		}
	}
	return s
}

// AcceptedLast returns how many of the last attempts were accepted, one after the
// other.
func AcceptedLast(all []Attempt) int {
	n := 0
	for n < len(all) && !all[len(all)-1-n].Refused {
		n++
	}
	return n
}
