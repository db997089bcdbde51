package correct

import (
	"strings"

	"github.com/servingcert/servingcert/pkg/rotator/pods"
)

// words are the names of flags and variables that are looked for in the lines of a log.
// They are compared byte by byte: pods say them, so nothing is compiled from them.
type words []word

type word struct {
	text string // folded
	dash bool   // must be before it
}

// wordsOf returns what is looked for: the names without dashes in front. A name that may be
// an ordinary word, such as "cert", must have a dash before it. What cannot be the name of
// a flag or a variable is left out.
func wordsOf(names []string) words {
	out := make(words, 0, len(names))
	for _, name := range names {
		if pods.IsName(name) {
			out = append(out, word{fold(name), !strings.ContainsAny(name, "-_.")})
		}
	}
	return out
}

func isAlphanumeric(b byte) bool {
	return '0' <= b && b <= '9' || 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z'
}

// fold returns the text with small letters, and hyphens for underscores: programs write one
// for the other. It has as many bytes.
func fold(s string) string {
	folded := []byte(s)
	for i, b := range folded {
		switch {
		case 'A' <= b && b <= 'Z':
			folded[i] = b - 'A' + 'a'
		case b == '_':
			folded[i] = '-'
		}
	}
	return string(folded)
}

// in reports whether the line names one of the words, and whether it gives one a value that
// is a path: so does a program that logs its command line or its configuration.
func (w words) in(line string) (named, withPath bool) {
	folded := fold(line)
	for i := range len(line) {
		if i > 0 && (isAlphanumeric(line[i-1]) || line[i-1] == '_' || line[i-1] == '.') {
			continue // in the middle of another word
		}
		for _, word := range w {
			at := i
			if word.dash && line[i] == '-' {
				at++
			} else if word.dash {
				continue
			}
			if !strings.HasPrefix(folded[at:], word.text) {
				continue
			}
			rest := line[at+len(word.text):]
			named = named || rest == "" || !isAlphanumeric(rest[0]) && rest[0] != '_' && rest[0] != '-'
			withPath = withPath || hasPath(rest)
		}
	}
	return named, withPath
}

// hasPath reports whether the text after a name is an absolute path, after at most
// maxBeforePath characters that stand between a name and its value.
func hasPath(rest string) bool {
	value := strings.TrimLeft(rest, "=: \"'>")
	between := len(rest) - len(value)
	return 0 < between && between <= maxBeforePath && strings.HasPrefix(value, "/")
}

const maxBeforePath = 5
