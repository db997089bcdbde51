package pods

import "github.com/servingcert/servingcert/pkg/api"

// maxText bounds what Shorten returns, in characters: the note of an event has room
// for 1024.
const maxText = 300

// Shorten returns the beginning of a text that a user or the API server wrote, for
// an event or a report.
func Shorten(s string) string { return api.Shorten(s, maxText) }
