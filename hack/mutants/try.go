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
	"time"

	"golang.org/x/sync/errgroup"
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
		where, err := goTool(ctx, "list", "-f", "{{.Dir}}", pattern)
		if err != nil {
			return nil, err
		}
		deps, err := goTool(ctx, "list", "-test", "-deps", "-f", "{{.ImportPath}}", pattern)
		if err != nil {
			return nil, err
		}
		s := &suite{binary: filepath.Join(dir, strconv.Itoa(i)+".test"), dir: strings.TrimSpace(where), args: []string{"-test.failfast"}}
		if slices.Contains(strings.Fields(deps), "pgregory.net/rapid") {
			s.args = append(s.args, "-rapid.nofailfile")
		}
		if _, err := goTool(ctx, "test", "-c", "-vet=off", "-overlay", overlay, "-o", s.binary, pattern); err != nil {
			return nil, err
		}
		suites = append(suites, s)
	}
	return suites, nil
}

// goTool returns what the go command prints. Its error says what the command complains of.
func goTool(ctx context.Context, args ...string) (string, error) {
	var complaint bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w\n%s%s", strings.Join(args, " "), err, out, &complaint)
	}
	return string(out), nil
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
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(jobs)
	for i := range fates {
		all.Go(func() (err error) {
			fates[i], err = become(ctx, suites, i+1)
			return err
		})
	}
	return fates, all.Wait()
}

// become tries one change. Tests notice it by failing or by never ending; that they could not be run, or
// were interrupted, is an error.
func become(ctx context.Context, suites []*suite, id int) (fate, error) {
	is := notReached
	for _, s := range suites {
		if !slices.Contains(s.reached, strconv.Itoa(id)) {
			continue
		}
		_, err := s.run(ctx, id)
		var exit *exec.ExitError
		switch {
		case ctx.Err() != nil:
			return noticed, ctx.Err()
		case errors.As(err, &exit):
			return noticed, nil
		case err != nil:
			return noticed, fmt.Errorf("run the tests in %s: %w", s.dir, err)
		}
		is = unnoticed
	}
	return is, nil
}
