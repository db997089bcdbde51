package api

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Escape returns text as it may be shown: on one line, and without characters that a
// terminal obeys or that make text look like another, such as control characters and
// those that change its direction. Each is replaced by its escape sequence, as in JSON.
// Whoever writes an object of the cluster decides what is in its annotations, in the
// messages of its conditions and in the names of its owners.
func Escape(text string) string { return escape(text, "") }

// EscapeLines is Escape for text of several lines or columns.
func EscapeLines(text string) string { return escape(text, "\n\t") }

func escape(text, but string) string {
	if strings.IndexFunc(text, func(r rune) bool { return !printed(r, but) }) < 0 {
		return text
	}
	var b strings.Builder
	for _, r := range text { // bytes that are no UTF-8 are utf8.RuneError
		switch {
		case printed(r, but):
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// printed reports whether the character is shown as it is: letters, marks, numbers,
// punctuation, symbols, the space, and those that are excepted.
func printed(r rune, but string) bool {
	return r != utf8.RuneError && strconv.IsPrint(r) || strings.ContainsRune(but, r)
}
