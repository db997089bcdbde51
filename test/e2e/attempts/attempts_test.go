package attempts

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestSum(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	at := func(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }
	for _, tt := range []struct {
		name string
		// all are the attempts, one for each second: a is accepted, r refused.
		all          string
		want         Summary
		acceptedLast int
	}{
		{"none", "", Summary{}, 0},
		{"all accepted", "aaa", Summary{Attempts: 3}, 3},
		{"one refused", "araa", Summary{Attempts: 4, Refused: 1, First: at(1), Last: at(1), Longest: time.Second}, 2},
		{"some in a row", "arrra", Summary{Attempts: 5, Refused: 3, First: at(1), Last: at(3), Longest: 3 * time.Second}, 1},
		{"two times, the first is longer", "rrraara", Summary{Attempts: 7, Refused: 4, First: at(0), Last: at(5), Longest: 3 * time.Second}, 1},
		{"two times, the second is longer", "arararra", Summary{Attempts: 8, Refused: 4, First: at(1), Last: at(6), Longest: 2 * time.Second}, 1},
		{"refused to the end", "aarrr", Summary{Attempts: 5, Refused: 3, First: at(2), Last: at(4), Longest: 2 * time.Second}, 0},
		{"all refused", "rr", Summary{Attempts: 2, Refused: 2, First: at(0), Last: at(1), Longest: time.Second}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var all []Attempt
			for i, r := range tt.all {
				all = append(all, Attempt{At: at(i), Refused: r == 'r'})
			}
			assert.Equal(t, tt.want, Sum(all))
			assert.Equal(t, tt.acceptedLast, AcceptedLast(all))
		})
	}
}
