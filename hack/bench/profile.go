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
)

// profileSource is added to the signer that is profiled. The one that is released has
// neither the code nor a port for it.
//
//go:embed testdata/profile.go.txt
var profileSource []byte

// build builds the program of cmd/what, with what profiles it if a profile is wanted.
func (o options) build(ctx context.Context, what, binary, dir string) error {
	args := []string{"build", "-o", binary}
	if o.profile != "" {
		overlay, err := overlay(ctx, what, dir)
		if err != nil {
			return fmt.Errorf("build the %s: %w", what, err)
		}
		args = append(args, "-overlay", overlay)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "github.com/servingcert/servingcert/cmd/"+what)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the %s: %w\n%s", what, err, out)
	}
	return nil
}

// overlay writes what `go build -overlay` needs to add profileSource to a program.
func overlay(ctx context.Context, what, dir string) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-f", "{{.Dir}}", "github.com/servingcert/servingcert/cmd/"+what).Output()
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

// profileDir makes the directory for the profiles of the next process, and removes those that
// were there.
func (b *bench) profileDir() (string, error) {
	for _, name := range []string{"cpu.pprof", "heap.pprof"} {
		if err := os.RemoveAll(filepath.Join(b.profile, name)); err != nil {
			return "", err
		}
	}
	return b.profile, os.MkdirAll(b.profile, 0o755)
}

// writeProfile has the process write its profiles, if they are wanted. Those of the last
// round stay.
func (b *bench) writeProfile(ctx context.Context, p *process) error {
	if b.profile == "" {
		return nil
	}
	if err := p.cmd.Process.Signal(syscall.SIGUSR1); err != nil {
		return err
	}
	return p.wait(ctx, "heap profile", func() (time.Duration, bool) {
		_, err := os.Stat(filepath.Join(b.profile, "heap.pprof"))
		return shortPoll, err == nil
	})
}
