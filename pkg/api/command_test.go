package api

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCommand(t *testing.T) {
	for want, args := range map[string][]string{
		"kubectl label namespace shop servingcert.dev/inject=enabled": {"kubectl", "label", "namespace", "shop", "servingcert.dev/inject=enabled"},
		`kubectl patch -p '{"a":"it'\''s"}' ''`:                       {"kubectl", "patch", "-p", `{"a":"it's"}`, ""},
	} {
		text, ok := Command([]string{"shop", "web.v1"}, args...)
		assert.True(t, ok)
		assert.Equal(t, want, text)
	}
	assert.Equal(t, "kubectl label namespace shop servingcert.dev/inject=enabled --overwrite", LabelCommand("shop", "--overwrite"))
}

// An invalid name never appears in a command. It is shown on one line, without characters that
// control a terminal.
func TestWhatIsNotANameIsInNoCommand(t *testing.T) {
	for _, name := range []string{
		"web;curl${IFS}example.com|sh;#", "$(id)", "`id`", "-A", "--all", "web name", "a\nb", "a\u202eb", "\x1b[2J", "'", "", "Web", strings.Repeat("a", 300),
	} {
		text, ok := Command([]string{"shop", name}, "kubectl", "rollout", "restart", "deployment/"+name, "-n", "shop")
		assert.False(t, ok, name)
		assert.Equal(t, Escape(text), text)
		assert.NotContains(t, text, "kubectl")
		assert.LessOrEqual(t, len(text), 400)
	}
}

// A shell parses the command into the original arguments.
func TestAShellTakesWhatWasMeant(t *testing.T) {
	for _, arg := range []string{"plain", "a b", "it's", `"`, "$HOME", "`id`", "a\\b", "*", "~", "!x", "#", "a\nb", ";exit 1"} {
		text, ok := Command(nil, "printf", "%s", arg)
		require.True(t, ok)
		out, err := exec.CommandContext(t.Context(), "sh", "-c", text).Output()
		require.NoError(t, err, text)
		assert.Equal(t, arg, string(out), text)
	}
}
