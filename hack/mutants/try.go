package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// fate is what tests make of a change.
type fate int

const (
	noticed fate = iota
	unnoticed
	notReached
)

// suite is the tests of one package, with all changes in.
type suite struct {
	binary, dir string
	args        []string
	reached     []string // numbers of changes
	limit       time.Duration
}

// build compiles the tests of the packages.
func build(ctx context.Context, dir, overlay string, testers []string) ([]*suite, error) {
	var suites []*suite
	for i, pattern := range testers {
		listed, err := exec.CommandContext(ctx, "go", "list", "-test", "-deps", "-f", "{{.ImportPath}}", pattern).Output()
		if err != nil {
			return nil, fmt.Errorf("go list %s: %w", pattern, err)
		}
		where, err := exec.CommandContext(ctx, "go", "list", "-f", "{{.Dir}}", pattern).Output()
		if err != nil {
			return nil, fmt.Errorf("go list %s: %w", pattern, err)
		}
		s := &suite{binary: filepath.Join(dir, strconv.Itoa(i)+".test"), dir: strings.TrimSpace(string(where)), args: []string{"-test.failfast"}}
		if slices.Contains(strings.Fields(string(listed)), "pgregory.net/rapid") {
			s.args = append(s.args, "-rapid.nofailfile")
		}
		if out, err := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", s.binary, pattern).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("go test -c %s: %w\n%s", pattern, err, out)
		}
		suites = append(suites, s)
	}
	return suites, nil
}

// run runs the tests with one change, or with none.
func (s *suite) run(ctx context.Context, id int, env ...string) ([]byte, error) {
	if s.limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.limit)
		defer cancel()
	}
	cmd := exec.CommandContext(ctx, s.binary, s.args...)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), append(env, "MUTANT="+strconv.Itoa(id))...)
	cmd.WaitDelay = time.Second
	return cmd.CombinedOutput()
}

// measure finds out which changes the tests reach, and how long they take.
func (s *suite) measure(ctx context.Context) error {
	seen := s.binary + ".seen"
	start := time.Now()
	if out, err := s.run(ctx, 0, "MUTANTS_SEEN="+seen); err != nil {
		return fmt.Errorf("the tests in %s fail without any change: %w\n%s", s.dir, err, out)
	}
	s.limit = 10*time.Second + 5*time.Since(start)
	reached, err := os.ReadFile(seen)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for line := range bytes.Lines(reached) {
		s.reached = append(s.reached, string(bytes.TrimSpace(line)))
	}
	return nil
}

// try makes one change after the other, and returns what became of each.
func try(ctx context.Context, suites []*suite, changes, jobs int) ([]fate, error) {
	for _, s := range suites {
		if err := s.measure(ctx); err != nil {
			return nil, err
		}
	}
	fates := make([]fate, changes)
	ids := make(chan int)
	var all sync.WaitGroup
	for range jobs {
		all.Go(func() {
			for id := range ids {
				fates[id-1] = become(ctx, suites, id)
			}
		})
	}
	for id := 1; id <= changes; id++ {
		ids <- id
	}
	close(ids)
	all.Wait()
	return fates, ctx.Err()
}

// become tries one change.
func become(ctx context.Context, suites []*suite, id int) fate {
	is := notReached
	for _, s := range suites {
		if !slices.Contains(s.reached, strconv.Itoa(id)) {
			continue
		}
		if _, err := s.run(ctx, id); err != nil {
			return noticed
		}
		is = unnoticed
	}
	return is
}
