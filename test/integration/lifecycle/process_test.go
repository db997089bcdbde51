package lifecycle

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/test/integration/harness"
)

// program is one that runs.
type program struct {
	*harness.Program
	endpoint *endpoint // of a replica behind a balancer
}

// start runs a program of dir as its ServiceAccount until the test ends, or stop is
// called, and waits until it is ready if ready says so: without a CA a signer never is.
func start(t *testing.T, name string, ready bool, flags ...string) *program {
	t.Helper()
	return startFrom(t, dir, name, ready, flags...)
}

// startFrom is start for a program of another directory.
func startFrom(t *testing.T, from, name string, ready bool, flags ...string) *program {
	t.Helper()
	made, err := harness.Process(t.Context(), plane, from, name, flags...)
	require.NoError(t, err)
	p := &program{Program: made}
	if from != dir { // the version before had one rotator
		p.Args = slices.DeleteFunc(p.Args, func(flag string) bool { return strings.HasPrefix(flag, "--controllers=") })
	}
	p.Launch(t)
	t.Cleanup(p.stop) // which releases its Lease
	if ready {
		require.NoError(t, p.AwaitReady(t.Context()))
	}
	return p
}

// stop ends the program as the kubelet does.
func (p *program) stop() { _ = p.Stop() }
