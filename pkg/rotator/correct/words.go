package correct

import (
	"iter"
	"slices"
	"strings"

	"github.com/servingcert/servingcert/pkg/api"
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
	for at, size := range w.all(line) {
		rest := line[at+size:]
		named = named || ends(rest)
		withPath = withPath || hasPath(rest)
	}
	return named, withPath
}

// all yields where one of the words begins in the line, and its length, if that is at the
// beginning of a word of the line.
func (w words) all(line string) iter.Seq2[int, int] {
	folded := fold(line)
	return func(yield func(at, size int) bool) {
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
				if strings.HasPrefix(folded[at:], word.text) && !yield(at, len(word.text)) {
					return
				}
			}
		}
	}
}

// ends reports whether a word ends where the rest of a line begins.
func ends(rest string) bool {
	return rest == "" || !isAlphanumeric(rest[0]) && rest[0] != '_' && rest[0] != '-'
}

// Bounds of what is looked at of a line for each word: how many places, and how many bytes
// around each.
const (
	maxPlaces = 16
	around    = 96
)

// refused reports whether one of the words is what the line complains of.
func (w words) refused(line string) bool {
	places := 0
	for at, size := range w.all(line) {
		if places++; places > maxPlaces {
			return false
		}
		before, rest := line[max(0, at-around):at], line[at+size:]
		if !ends(rest) {
			continue
		}
		after := beginning(pastValue(rest), around)
		if helps(line) {
			if strings.Trim(before, " \t-[") == "" && refusedInList.MatchString(after) {
				return true
			}
			continue
		}
		if refusedBefore.MatchString(before) || refusedAfter.MatchString(after) {
			return true
		}
	}
	return false
}

// refusesFile reports whether the line complains of a file in the usual directory of the
// certificate, such as one that the program may not read.
func refusesFile(line string) bool {
	const dir = api.DefaultMountPath + "/"
	at := strings.Index(line, dir)
	if at < 0 {
		return false
	}
	rest := line[at+len(dir):]
	if end := strings.IndexAny(rest, afterPath+":"); end >= 0 {
		rest = rest[end:]
	} else {
		rest = ""
	}
	return refusedBefore.MatchString(line[max(0, at-around):at]) || refusedAfter.MatchString(beginning(rest, around))
}

func beginning(s string, most int) string { return s[:min(len(s), most)] }

// afterPath are the characters that end a path in a line.
const afterPath = " \t\x1b'\"`),;]}>’”»"

// pastValue returns the text after the value of a name, if that is a path.
func pastValue(rest string) string {
	if !hasPath(rest) {
		return rest
	}
	rest = rest[strings.IndexByte(rest, '/'):]
	end := strings.IndexAny(rest, afterPath)
	switch {
	case end < 0:
		return ""
	case rest[end-1] == ':':
		end--
	}
	return rest[end:]
}

// alone reports whether the line has one flag in it, and that is one of the words. A program
// that repeats its command line has all of it in the line.
func (w words) alone(line string) bool {
	flags := longFlag.FindAllStringSubmatch(line, 2)
	return len(flags) == 1 && !w.another(line)
}

// another reports whether the line has a long flag in it that is none of the words, nor asks
// for help.
func (w words) another(line string) bool {
	for _, m := range longFlag.FindAllStringSubmatch(line, -1) {
		own := func(word word) bool { return word.text == fold(m[2]) }
		if m[2] != "help" && !slices.ContainsFunc(w, own) {
			return true
		}
	}
	return false
}

// hasPath reports whether the text after a name is an absolute path, after at most
// maxBeforePath characters that stand between a name and its value.
func hasPath(rest string) bool {
	value := strings.TrimLeft(rest, "=: \"'>")
	between := len(rest) - len(value)
	return 0 < between && between <= maxBeforePath && strings.HasPrefix(value, "/")
}

const maxBeforePath = 5
