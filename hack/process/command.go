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
	ctrl "sigs.k8s.io/controller-runtime/pkg/log"
)

// Main runs a command until it is done, or told to end, and exits: with 1 if it returns an error,
// which goes to stderr. What clients have to say is in that error, so they log nothing.
func Main(name string, run func(context.Context) error) {
	klog.SetLogger(logr.Discard())
	ctrl.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// Failed prints what is not as it should be, and returns an error if anything is.
func Failed(failures []string) error {
	for _, f := range failures {
		fmt.Println("FAILED:", f)
	}
	if len(failures) > 0 {
		return errors.New("not everything is as it should be")
	}
	return nil
}

// Say reports progress.
func Say(out io.Writer, format string, args ...any) {
	fmt.Fprintf(out, "%s %s\n", time.Now().UTC().Format("15:04:05"), fmt.Sprintf(format, args...))
}

// Step reports on stderr what is done next.
func Step(format string, args ...any) { Say(os.Stderr, format, args...) }

// Choose returns those of all that the value of a flag names, separated by commas, in the order in
// which all are; all of them if it names none.
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

// Each runs do for 0 … n-1, so many at a time, until one fails.
func Each(ctx context.Context, n, atATime int, do func(ctx context.Context, i int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(atATime)
	for i := range n {
		g.Go(func() error { return do(ctx, i) })
	}
	return g.Wait()
}

// Sleep waits for d, and reports whether ctx has not ended meanwhile.
func Sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
