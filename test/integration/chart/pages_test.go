package chart

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/hack/installed"
	"github.com/servingcert/servingcert/test/docs/commands"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// pages are those with blocks that are run, in the order in which they are: a page finds what those
// before it left behind, and docs/uninstall.md leaves nothing.
var pages = []string{
	"README", "deploy/README", "docs/tutorial", "docs/tls-beside-plaintext", "docs/connect", "docs/install", "docs/operations", "docs/troubleshooting",
	"docs/doctor", "docs/cli", "docs/trust", "docs/gateways", "docs/admission-policies", "docs/monitoring",
	"docs/remote-ca", "docs/webhook-client-certificate", "docs/upgrade", "docs/uninstall",
}

// TestThePages runs the blocks of the documentation that are marked to be run, in their order, where
// servingcert is installed and hack/demo/shop.yaml is applied. A node is played: pods are ready, and serve
// the certificate that they were given. What a command prints is what the page shows.
func TestThePages(t *testing.T) {
	s := newWorld(t)
	s.block(t, t.TempDir(), &commands.Block{Commands: []commands.Command{{Text: "kubectl apply -f " + filepath.Join(s.root, "hack/demo/shop.yaml") + `
		kubectl -n shop wait --for=condition=servingcert.dev/Ready service/web
		kubectl -n shop rollout status deployment`}}})
	for _, page := range pages {
		t.Run(page, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join(root, page+".md"))
			require.NoError(t, err)
			blocks, err := commands.Blocks(string(text))
			require.NoError(t, err)
			dir, ran := t.TempDir(), false
			for _, name := range []string{"deploy", "hack"} { // as in the repository, which commands must not write to
				require.NoError(t, os.Symlink(filepath.Join(s.root, name), filepath.Join(dir, name)))
			}
			for i := range blocks {
				if blocks[i].Run && !t.Failed() {
					s.block(t, dir, &blocks[i])
					ran = true
				}
			}
			assert.True(t, ran, "no block is marked to be run")
		})
	}
}

// world is the control plane on which they are run.
type world struct {
	*installed.Cluster
	root string
	env  []string
}

func newWorld(t *testing.T) world {
	t.Helper()
	binaries, err := controlplane.Binaries(t.Context(), os.Stderr, controlplane.Kubectl)
	require.NoError(t, err)
	c, err := installed.New(installed.Options{
		Name: "kubectl", Log: t.Output(), Once: true, Flags: map[string][]string{"signer": {"--ca-soak=1s", "--ca-reissue-window=4s"}},
	})
	t.Cleanup(func() { assert.NoError(t, c.Stop()) })
	require.NoError(t, err)
	for _, program := range []string{"signer", "rotator", "webhook"} {
		require.NoError(t, os.Symlink(filepath.Join(dir, program), c.Path("bin", program)))
	}
	require.NoError(t, c.StartPlane(t.Context()))
	require.NoError(t, c.Install(t.Context()))
	require.NoError(t, c.RunAll(t.Context(), func(*installed.Process) {}, "--metrics-addr=0"))
	startNode(t, c.Admin)
	absolute, err := filepath.Abs(root)
	require.NoError(t, err)
	return world{c, absolute, []string{
		"KUBECONFIG=" + c.Plane.KubeconfigFile(), "HOME=" + t.TempDir(),
		"PATH=" + strings.Join([]string{filepath.Dir(binaries[controlplane.Kubectl]), dir, os.Getenv("PATH")}, string(filepath.ListSeparator)),
	}}
}

// startNode has each pod run, and serve the certificate that it was given, until the test ends.
func startNode(t *testing.T, c client.Client) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	node := harness.Node{Client: c, Name: "hollow", Reloads: true, Address: func(n int) string { return fmt.Sprintf("10.244.%d.%d", n/250, 1+n%250) }}
	require.NoError(t, node.Start(ctx))
	t.Cleanup(func() { cancel(); assert.NoError(t, node.Wait()) })
}

// block runs a block's commands in one shell, in dir, and compares what each prints.
func (s world) block(t *testing.T, dir string, b *commands.Block) {
	t.Helper()
	const next = "-- next --"
	script := b.After + "\necho " + next + "\n"
	for _, c := range b.Commands {
		script += b.Typed(c) + "\necho " + next + "\n"
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", script)
	cmd.Dir, cmd.Env, cmd.WaitDelay = dir, s.env, time.Second
	out, err := cmd.CombinedOutput()
	if !assert.NoError(t, err, "the block of line %d:\n%s\n%s", b.Line, script, out) {
		return
	}
	for i, printed := range strings.Split(string(out), next+"\n")[1:] {
		if i < len(b.Commands) && b.Commands[i].Printed != "" {
			c := b.Commands[i]
			assert.True(t, commands.Shows(c.Printed, printed), "line %d: $ %s\nprints\n%s\nand the page shows\n%s", c.Line, c.Text, printed, c.Printed)
		}
	}
}
