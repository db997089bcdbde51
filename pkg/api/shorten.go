package api

import (
	"fmt"
	"strings"
)

// Shorten returns the text if it has at most that many characters, and otherwise
// so many of it and an ellipsis. It bounds what a message repeats of what someone
// else wrote.
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

// Listed returns the first of the names, at most so many, and how many more there are: "a, b and 3 more".
func Listed(names []string, most int) string {
	shown := strings.Join(names[:min(len(names), most)], ", ")
	if more := len(names) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", shown, more)
	}
	return shown
}

// ListedTexts is Listed for texts that have commas of their own: "a; b; and 3 more".
func ListedTexts(texts []string, most int) string {
	shown := strings.Join(texts[:min(len(texts), most)], "; ")
	if more := len(texts) - most; more > 0 {
		return fmt.Sprintf("%s; and %d more", shown, more)
	}
	return shown
}
