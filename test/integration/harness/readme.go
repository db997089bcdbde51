package harness

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/hack/controlplane"
)

// Kubectl returns kubectl's path. Where it is not built yet, that takes minutes on a busy machine: a test
// asks for it before anything that has to follow soon.
func Kubectl(t *testing.T) string {
	t.Helper()
	binaries, err := controlplane.Binaries(t.Context(), os.Stderr, controlplane.Kubectl)
	require.NoError(t, err)
	return binaries[controlplane.Kubectl]
}

// KubectlWait types the line of README.md that waits for a condition of Service web, in
// another namespace than shop. It returns once kubectl waits; what it returns waits for
// kubectl's answer, which must be the README's.
func KubectlWait(t *testing.T, kubectl, kubeconfig, condition, namespace string) (answer func()) {
	t.Helper()
	readme, err := os.ReadFile("../../../README.md")
	require.NoError(t, err)
	lines := strings.Split(string(readme), "\n")
	for i, line := range lines {
		words := strings.Fields(line)
		if len(words) < 6 || strings.Join(words[:5], " ") != "$ kubectl -n shop wait" || words[5] != "--for=condition="+condition {
			continue
		}
		typed, _, _ := strings.Cut(strings.TrimPrefix(line, "$ kubectl -n shop "), "#")
		var out, log Log
		cmd := exec.Command(kubectl, append([]string{"--kubeconfig=" + kubeconfig, "--namespace=" + namespace}, strings.Fields(typed)...)...)
		cmd.Stdout, cmd.Stderr = &out, &log // where kubectl may note that it ended its watch
		require.NoError(t, cmd.Start())
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		return func() {
			t.Helper()
			require.NoError(t, cmd.Wait(), "%s%s", &out, &log)
			require.Equal(t, lines[i+1]+"\n", out.String())
		}
	}
	require.Fail(t, "README.md does not wait", "no line waits for condition %s", condition)
	return nil
}
