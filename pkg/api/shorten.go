package api

import (
	"fmt"
	"strings"
)

// Shorten returns the text, or its first most characters and an ellipsis if it is
// longer. It bounds how much of someone else's text a message repeats.
func Shorten(text string, most int) string {
	characters := 0
	for i := range text {
		if characters == most {
			return text[:i] + "…"
		}
		characters++
	}
	return text
}

// maxEventNote is the API's limit on the bytes of an event's note: it refuses longer ones.
const maxEventNote = 1024

// EventNote returns the text, truncated to the limit of an event's note.
func EventNote(text string) string {
	if len(text) <= maxEventNote {
		return text
	}
	return strings.ToValidUTF8(text[:maxEventNote-len("…")], "") + "…"
}

// Count returns the number with the noun: 1 reference, 2 addresses.
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if strings.HasSuffix(noun, "s") {
		noun += "e"
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Listed returns at most most of the names, and the number of the others: "a, b and 3 more".
func Listed(names []string, most int) string {
	return ListedOf(names[:min(len(names), most)], len(names))
}

// ListedOf is Listed of the first names of all.
func ListedOf(names []string, all int) string {
	shown := strings.Join(names, ", ")
	if more := all - len(names); more > 0 {
		return fmt.Sprintf("%s and %d more", shown, more)
	}
	return shown
}

// ListedTexts is Listed for texts that contain commas: "a; b; and 3 more".
func ListedTexts(texts []string, most int) string {
	shown := strings.Join(texts[:min(len(texts), most)], "; ")
	if more := len(texts) - most; more > 0 {
		return fmt.Sprintf("%s; and %d more", shown, more)
	}
	return shown
}
