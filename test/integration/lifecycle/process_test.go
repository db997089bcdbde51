package lifecycle

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

// startWebhook runs the webhook where its Service leads, with the files of its Secret:
// as a kubelet does, they follow the Secret for as long as the test runs.
func startWebhook(t *testing.T) *program {
	t.Helper()
	certs := t.TempDir()
	mount(t, certs)
	flags, err := harness.ServedAt(t.Context(), admin, certs)
	require.NoError(t, err)
	return start(t, "webhook", true, flags...)
}

// mount keeps the files of the webhook's Secret in the directory, pair by pair, and
// returns once they are there.
func mount(t *testing.T, certs string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done, first := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		version := ""
		for ctx.Err() == nil {
			var secret corev1.Secret
			err := admin.Get(ctx, client.ObjectKey{Namespace: system, Name: "servingcert-webhook-tls"}, &secret)
			if err == nil && secret.ResourceVersion != version && len(secret.Data[corev1.TLSCertKey]) > 0 && write(certs, secret.ResourceVersion, secret.Data) == nil {
				if version == "" {
					close(first)
				}
				version = secret.ResourceVersion
			}
			time.Sleep(harness.Tick)
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	select {
	case <-first:
	case <-time.After(harness.Soon):
		t.Fatal("the webhook has no Secret")
	}
}

// write puts the pair into a directory of its own, to which the files of certs lead by
// one symbolic link, as in a projected volume.
func write(certs, version string, data map[string][]byte) error {
	pair := filepath.Join(certs, ".."+version)
	if err := os.Mkdir(pair, 0o700); err != nil {
		return err
	}
	for name, content := range data {
		if err := os.WriteFile(filepath.Join(pair, name), content, 0o600); err != nil {
			return err
		}
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(certs, name)); err != nil && !os.IsExist(err) {
			return err
		}
	}
	next := filepath.Join(certs, "..next")
	if err := os.Symlink(filepath.Base(pair), next); err != nil {
		return err
	}
	return os.Rename(next, filepath.Join(certs, "..data"))
}
