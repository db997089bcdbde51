package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

// Main runs a command until it returns, cancels its context on a signal, and exits. If the command
// returns an error, Main prints it to stderr and exits with 1. Client libraries do not log.
func Main(name string, run func(context.Context) error) {
	klog.SetLogger(logr.Discard())
	ctrllog.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// Failed prints the failures, and returns an error if there are any.
func Failed(failures []string) error {
	for _, f := range failures {
		fmt.Println("FAILED:", f)
	}
	if len(failures) > 0 {
		return errors.New("some checks failed")
	}
	return nil
}

// Say reports progress.
func Say(out io.Writer, format string, args ...any) {
	fmt.Fprintf(out, "%s %s\n", time.Now().UTC().Format("15:04:05"), fmt.Sprintf(format, args...))
}

// Step reports the next step on stderr.
func Step(format string, args ...any) { Say(os.Stderr, format, args...) }

// Choose returns the elements of all that the comma-separated value of a flag names, in the order of
// all. An empty value names all of them.
func Choose[T any](flag, value string, all []T, nameOf func(T) string) ([]T, error) {
	if value == "" {
		return all, nil
	}
	asked := strings.Split(value, ",")
	known := make([]string, len(all))
	for i, each := range all {
		known[i] = nameOf(each)
	}
	for _, name := range asked {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("--%s: %q: must be of %s", flag, name, strings.Join(known, ", "))
		}
	}
	var chosen []T
	for i, each := range all {
		if slices.Contains(asked, known[i]) {
			chosen = append(chosen, each)
		}
	}
	return chosen, nil
}

// Each calls do for 0 … n-1, at most atATime concurrently, until one fails.
func Each(ctx context.Context, n, atATime int, do func(ctx context.Context, i int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(atATime)
	for i := range n {
		g.Go(func() error { return do(ctx, i) })
	}
	return g.Wait()
}

// Poll calls check until it returns nil, with a pause between two calls. After the timeout it returns the last error
// that check returned before.
func Poll(ctx context.Context, timeout, pause time.Duration, check func(context.Context) error) error {
	start := time.Now()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var last error
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil || last == nil { // otherwise err is only the timeout
			last = err
		}
		if !Sleep(ctx, pause) {
			return fmt.Errorf("not within %s: %w", time.Since(start).Round(time.Second), last)
		}
	}
}

// Sleep waits for d. It returns false if ctx ends before.
func Sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
