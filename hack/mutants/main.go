// Command mutants changes the conditions and signs of a package's code, one at a time,
// and prints the changes that the package's tests do not notice:
//
//	go run ./hack/mutants ./pkg/plan
//	go run ./hack/mutants -by ./pkg/mutate ./pkg/mutate/choose
//
// A comparison is negated and moved by one (< to <=), a condition is negated, + and - change
// places, and so do * and /. All changes are compiled into one test binary, and an environment
// variable says which of them is made (mutant schemata: Untch, Offutt and Harrold, 1993). A change
// that no test reaches is not tried. Not all that is printed calls for a test: a change may
// mean the same as what it replaces, or concern only how fast something is.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strings"
)

func main() {
	by := flag.String("by", "", "packages whose tests are to notice changes as well, comma-separated")
	jobs := flag.Int("j", runtime.NumCPU(), "how many changes to try at once")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: mutants [-by packages] [-j jobs] package")
		os.Exit(2)
	}
	testers := []string{flag.Arg(0)}
	if *by != "" {
		testers = append(testers, strings.Split(*by, ",")...)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Stdout, flag.Arg(0), testers, *jobs)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// run prints the changes of the package that no tester notices, and how many are noticed.
func run(ctx context.Context, out io.Writer, pattern string, testers []string, jobs int) error {
	dir, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	m, err := mutate(ctx, pattern)
	if err != nil {
		return err
	}
	overlay, err := m.write(dir)
	if err != nil {
		return err
	}
	suites, err := build(ctx, dir, overlay, testers)
	if err != nil {
		return err
	}
	fates, err := try(ctx, suites, len(m.changes), jobs)
	if err != nil {
		return err
	}
	count := map[fate]int{}
	for i, c := range m.changes {
		count[fates[i]]++
		if fates[i] != noticed {
			fmt.Fprintln(out, c.String()+map[fate]string{notReached: " (no test gets here)"}[fates[i]])
		}
	}
	fmt.Fprintf(out, "%s: %d changes, %d noticed, %d not, and no test gets to %d\n",
		m.path, len(m.changes), count[noticed], count[unnoticed], count[notReached])
	return nil
}
