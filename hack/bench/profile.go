package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/servingcert/servingcert/hack/measure"
)

// profileSource is added to the signer that is profiled. The one that is released has
// neither the code nor a port for it.
//
//go:embed testdata/profile.go.txt
var profileSource []byte

// build builds a program of cmd, with what profiles it if a profile is wanted.
func (o options) build(ctx context.Context, dir, program string) (string, error) {
	if o.profile == "" {
		return measure.Build(ctx, dir, program)
	}
	overlay, err := overlay(ctx, dir, program)
	if err != nil {
		return "", fmt.Errorf("build the %s: %w", program, err)
	}
	return measure.Build(ctx, dir, program, "-overlay", overlay)
}

// overlay writes what `go build -overlay` needs to add profileSource to a program.
func overlay(ctx context.Context, dir, program string) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-f", "{{.Dir}}", "github.com/servingcert/servingcert/cmd/"+program).Output()
	if err != nil {
		return "", err
	}
	source, file := filepath.Join(dir, "profile.go"), filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(source, profileSource, 0o600); err != nil {
		return "", err
	}
	added := filepath.Join(strings.TrimSpace(string(out)), "profile_of_the_bench.go")
	body, err := json.Marshal(map[string]map[string]string{"Replace": {added: source}})
	if err != nil {
		return "", err
	}
	return file, os.WriteFile(file, body, 0o600)
}

// makeProfileDir makes the directory for the profiles of the next signer, and removes those
// that were there.
func (b *bench) makeProfileDir() error {
	if b.profile == "" {
		return nil
	}
	for _, name := range []string{"cpu.pprof", "heap.pprof"} {
		if err := os.RemoveAll(filepath.Join(b.profile, name)); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(b.profile, 0o755); err != nil {
		return err
	}
	return os.Setenv("SERVINGCERT_BENCH_PROFILE", b.profile) // the signer inherits it
}

// untilRest is longer than the signer remembers what it wrote last.
const untilRest = 6 * time.Second

// writeProfile has the signer write its profiles once it is at rest, if they are wanted. Those
// of the last round stay.
func (b *bench) writeProfile(ctx context.Context, p *measure.Process) error {
	if b.profile == "" {
		return nil
	}
	select {
	case <-time.After(untilRest):
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := syscall.Kill(p.PID(), syscall.SIGUSR1); err != nil {
		return err
	}
	return p.Wait(ctx, "heap profile", func() (time.Duration, bool) {
		_, err := os.Stat(filepath.Join(b.profile, "heap.pprof"))
		return 20 * time.Millisecond, err == nil
	})
}
