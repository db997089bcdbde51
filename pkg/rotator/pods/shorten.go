package pods

import "github.com/servingcert/servingcert/pkg/api"

// maxText bounds the result of Shorten, in characters: the note of an event has at most 1024.
const maxText = 300

// Shorten returns the beginning of a text that a user or the API server wrote, for an event or a
// report.
func Shorten(s string) string { return api.Shorten(s, maxText) }
