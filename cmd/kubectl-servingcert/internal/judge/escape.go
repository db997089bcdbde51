package judge

import "github.com/servingcert/servingcert/pkg/api"

// Escape is api.Escape.
func Escape(text string) string { return api.Escape(text) }

// EscapeLines is api.EscapeLines.
func EscapeLines(text string) string { return api.EscapeLines(text) }
