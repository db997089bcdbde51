package command

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
)

// TestErrorsDoNotControlTheTerminal: an error may quote a link's target, or what a server answered.
func TestErrorsDoNotControlTheTerminal(t *testing.T) {
	hostile := errors.New("a\nb \x1b]0;x\a \u202e \u009b \xff é")
	for _, c := range []Command{
		{Validate: func() error { return hostile }},
		{Validate: func() error { return nil }, Run: func(context.Context) error { return hostile }},
	} {
		c.Name, c.Flags = "tool", func(*pflag.FlagSet) {}
		var stdout, stderr strings.Builder
		assert.NotEqual(t, ExitOK, Main(nil, &stdout, &stderr, c))
		assert.Contains(t, stderr.String(), "]0;x")
		assert.Contains(t, stderr.String(), "é")
		assert.NotContains(t, stderr.String(), "\nb")
		assert.NotContains(t, stderr.String(), "\x1b")
		assert.NotContains(t, stderr.String(), "\a")
		assert.NotContains(t, stderr.String(), "\u202e")
		assert.NotContains(t, stderr.String(), "\u009b")
		assert.Empty(t, stdout.String())
	}
}
