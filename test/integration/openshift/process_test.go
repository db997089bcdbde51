package openshift

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/servingcert/servingcert/test/integration/harness"
)

// programs are those of an installation, in the order in which they start here:
// the webhook needs what the signer issues.
var programs = []string{"signer", "trust", "rotator", "webhook"}

// running are the programs that do.
var running = map[string]*harness.Program{}

// stopAll ends them, and reports what no test may overlook.
func stopAll() (err error) {
	for _, p := range running {
		p.Kill()
		err = errors.Join(err, p.Err())
	}
	return err
}

// startAll runs all programs with --openshift-compat, and returns once they are ready.
func startAll(ctx context.Context) error {
	for _, name := range programs {
		p, err := program(ctx, name)
		if err != nil {
			return err
		}
		if err := p.Run(); err != nil {
			return err
		}
		running[name] = p
		if err := p.AwaitReady(ctx); err != nil {
			return fmt.Errorf("%w\n%s", err, p.Log.String())
		}
	}
	return harness.AwaitInjection(ctx, admin)
}

// program is one with the flag; the webhook where its Service leads, with the certificate
// that the signer gives it.
func program(ctx context.Context, name string) (*harness.Program, error) {
	flags := []string{"--openshift-compat"}
	if name == "webhook" {
		more, err := harness.WebhookFlags(ctx, admin, filepath.Join(dir, "certs"))
		if err != nil {
			return nil, err
		}
		flags = append(flags, more...)
	}
	return harness.Process(ctx, plane, dir, name, flags...)
}
