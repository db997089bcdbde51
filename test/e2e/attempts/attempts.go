// Package attempts summarizes attempts that are rejected for a while. The end-to-end scenes
// use it to measure for how long no pods can be created.
package attempts

import "time"

// Attempt is an attempt and its outcome.
type Attempt struct {
	At      time.Time // when it began
	Refused bool
}

// Summary summarizes attempts.
type Summary struct {
	Attempts, Refused int
	// First and Last are the times at which the first and the last refused attempt began; zero
	// if none was refused.
	First, Last time.Time
	// Longest is the longest time without an accepted attempt: from the first refused attempt to
	// the next accepted one or, if there is none, to the last refused one.
	Longest time.Duration
}

// Sum summarizes attempts, the oldest first.
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

// AcceptedLast returns the number of accepted attempts since the last refused one.
func AcceptedLast(all []Attempt) int {
	n := 0
	for n < len(all) && !all[len(all)-1-n].Refused {
		n++
	}
	return n
}
