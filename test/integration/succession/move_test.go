package succession

import (
	"crypto/x509"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/test/docs/commands"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// An operator that runs with the certificates and caBundles of a real cert-manager moves to
// servingcert and back, by the commands of docs/operator-webhooks.md. Calls of its webhooks fail
// meanwhile, as the page says, and none before and after.
func TestOperatorMovesFromCertManagerAndBack(test *testing.T) {
	t := fresh(test)
	startCertManager(t, "-cainjector")
	start(t, "signer", fast...)
	start(t, "trust")
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "old.yaml"), operatorManifest(t, "cert-manager"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "operator.yaml"), operatorManifest(t, "servingcert"), 0o600))
	shell := kubectlIn(t, dir)
	o := newOperator(t)
	harness.Eventually(t, func() error { return shell("kubectl apply -f old.yaml") }) // the kinds are a moment old
	o.run(t)
	selfSigned := func(leaf *x509.Certificate) bool {
		return leaf.CheckSignature(leaf.SignatureAlgorithm, leaf.RawTBSCertificate, leaf.Signature) == nil
	}
	o.called(t, selfSigned)
	require.Empty(t, o.forget(), "with cert-manager")

	page, err := os.ReadFile("../../../docs/operator-webhooks.md")
	require.NoError(t, err)
	blocks, err := commands.Blocks(string(page))
	require.NoError(t, err)
	blocks = slices.DeleteFunc(blocks, func(b commands.Block) bool { return b.By != t.Name() })
	require.Len(t, blocks, 2, "one there, and one back")
	for i, moved := range []struct {
		to     string
		signed func(*x509.Certificate) bool
	}{
		{"servingcert", func(leaf *x509.Certificate) bool {
			return strings.HasPrefix(leaf.Issuer.CommonName, "servingcert CA 1 ")
		}},
		{"cert-manager", selfSigned},
	} {
		for _, c := range blocks[i].Commands {
			require.NoError(t, shell(c.Text))
		}
		if moved.to == "servingcert" { // what the garbage collector does, which does not run here
			require.NoError(t, shell("kubectl -n "+operatorNamespace+" delete certificaterequests --all"))
		}
		o.called(t, moved.signed)
		failures := o.forget()
		t.Logf("to %s: %d calls failed: %v … %v", moved.to, len(failures), slices.Concat(failures, []error{nil})[0], slices.Concat([]error{nil}, failures)[len(failures)])
		o.called(t, moved.signed)
		assert.Empty(t, o.forget(), "with %s", moved.to)
	}
}

// kubectlIn returns a shell in a directory, with kubectl for the scene.
func kubectlIn(t *scene, dir string) (run func(command string) error) {
	t.Helper()
	binaries, err := controlplane.Binaries(t.Context(), os.Stderr, controlplane.Kubectl)
	require.NoError(t, err)
	return func(command string) error {
		cmd := exec.CommandContext(t.Context(), "bash", "-euc", command)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "KUBECONFIG="+t.plane.KubeconfigFile(), "PATH="+filepath.Dir(binaries[controlplane.Kubectl])+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		t.Logf("$ %s\n%s", command, out)
		return err
	}
}
