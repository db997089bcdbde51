package api

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
