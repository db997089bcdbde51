package pods

// maxText bounds what Shorten returns, in characters.
const maxText = 300

// Shorten returns the beginning of a text that a user or the API server wrote, for
// an event or a report: the note of an event has room for 1024 characters.
func Shorten(s string) string {
	if r := []rune(s); len(r) > maxText {
		return string(r[:maxText]) + "…"
	}
	return s
}
