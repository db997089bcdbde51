package api

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Escape returns text that is safe to display: on one line, and with escape sequences,
// as in JSON, for characters that control a terminal or disguise text, such as control
// characters and those that change its direction. Annotations, messages of conditions
// and names of owners are chosen by whoever writes an object.
func Escape(text string) string { return escape(text, "") }

// EscapeLines is Escape for text with several lines or columns.
func EscapeLines(text string) string { return escape(text, "\n\t") }

func escape(text, but string) string {
	if strings.IndexFunc(text, func(r rune) bool { return !printed(r, but) }) < 0 {
		return text
	}
	var b strings.Builder
	for _, r := range text { // bytes that are not UTF-8 become utf8.RuneError
		switch {
		case printed(r, but):
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		default:
			for _, unit := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(&b, `\u%04x`, unit)
			}
		}
	}
	return b.String()
}

// printed reports whether the character is shown unchanged: letters, marks, numbers,
// punctuation, symbols, the space, and the exceptions in but.
func printed(r rune, but string) bool {
	return r != utf8.RuneError && strconv.IsPrint(r) || strings.ContainsRune(but, r)
}
