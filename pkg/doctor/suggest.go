package doctor

import (
	"slices"
	"strings"

	"github.com/servingcert/servingcert/pkg/api"
)

// Suggest returns the most similar of the keys, or "" if none differs by at most a third of its
// letters. The prefix servingcert.dev/ does not count.
func Suggest(text string, keys []string) string {
	const prefix = api.Domain + "/"
	text = strings.TrimPrefix(text, prefix)
	best, least := "", -1
	for _, key := range keys {
		name := strings.TrimPrefix(key, prefix)
		d := distance(text, name)
		if d > max(len(name)/3, 1) || least >= 0 && d >= least {
			continue
		}
		best, least = key, d
	}
	return best
}

// distance returns the number of insertions, deletions, replacements and transpositions that turn a into b
// (optimal string alignment), considering the first 128 bytes.
func distance(a, b string) int {
	const most = 128 // longer than any key
	x, y := []rune(a[:min(len(a), most)]), []rune(b[:min(len(b), most)])
	before, last, row := make([]int, len(y)+1), make([]int, len(y)+1), make([]int, len(y)+1)
	for j := range last {
		last[j] = j
	}
	for i := range x {
		row[0] = i + 1
		for j := range y {
			same := 1
			if x[i] == y[j] {
				same = 0
			}
			row[j+1] = slices.Min([]int{last[j+1] + 1, row[j] + 1, last[j] + same})
			if i > 0 && j > 0 && x[i] == y[j-1] && x[i-1] == y[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(y)]
}
