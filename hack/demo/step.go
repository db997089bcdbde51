package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/servingcert/servingcert/hack/process"
)

const (
	// deadline bounds a request.
	deadline = time.Minute
	// measuring is how often to look where the time is printed: how exact it is.
	measuring = 2 * time.Millisecond
	// starting is how often to ask a process whether it is ready: it logs each no.
	starting = 50 * time.Millisecond
	// heartbeat is how often a step that takes long says that it is alive.
	heartbeat = 15 * time.Second
	// tailLines is how much of a log a failure shows.
	tailLines = 12
)

const indent = "        "

// step is one line of the demo. If it fails, the ends of the logs of the
// components concerned are shown.
type step struct {
	title     string
	do        func(context.Context) error
	concerned []string
}

func (d *demo) runSteps(ctx context.Context, steps []step) error {
	for i, s := range steps {
		fmt.Fprintf(d.out.w, "[%2d/%d] %s\n", i+1, len(steps), s.title)
		start := time.Now()
		stopBeat := d.out.beat(start)
		err := s.do(ctx)
		stopBeat()
		if err != nil {
			return d.failure(ctx, err, s)
		}
		d.out.printf("ok, %s\n", short(time.Since(start)))
	}
	return nil
}

// failure says what a step failed for, after it has shown the logs that tell more.
func (d *demo) failure(ctx context.Context, err error, s step) error {
	if ctx.Err() != nil {
		err = context.Cause(ctx) // says more than a wait that was broken off
	}
	var ended *endedError
	switch {
	case errors.Is(err, errInterrupted):
		return err
	case errors.As(err, &ended):
		d.showLogs([]string{ended.component})
	default:
		d.showLogs(s.concerned)
	}
	return fmt.Errorf("%s: %w", s.title, err)
}

// showLogs prints the ends of the logs of those components that were started.
func (d *demo) showLogs(components []string) {
	for _, name := range components {
		log := process.Log{File: d.logFile(name)}
		if _, err := os.Stat(log.File); err != nil {
			continue
		}
		d.out.printf("the end of the log of %s:\n", name)
		for _, line := range log.Tail(tailLines) {
			d.out.printf("  | %s\n", line)
		}
	}
}

// short writes a duration with two or three digits: 9 ms, 3.2 s.
func short(d time.Duration) string {
	switch {
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", d.Seconds()*1000)
	case d < time.Second:
		return fmt.Sprintf("%.0f ms", d.Seconds()*1000)
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

// output indents what is written to it, and shows signs of life. The progress of
// a build comes in parts of a line.
type output struct {
	mu      sync.Mutex
	w       io.Writer
	midLine bool
}

func (o *output) printf(format string, args ...any) { _, _ = fmt.Fprintf(o, format, args...) }

// Write is for progress that comes from elsewhere.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for line := range bytes.Lines(p) {
		prefix := indent
		if o.midLine {
			prefix = ""
		}
		if _, err := fmt.Fprintf(o.w, "%s%s", prefix, line); err != nil {
			return 0, err
		}
		o.midLine = !bytes.HasSuffix(line, []byte("\n"))
	}
	return len(p), nil
}

// beat says every now and then how long a step has been running.
func (o *output) beat(start time.Time) (stop func()) {
	ticker, done := time.NewTicker(heartbeat), make(chan struct{})
	go func() {
		for {
			select {
			case <-ticker.C:
				o.mu.Lock()
				end := "\n"
				if o.midLine {
					end = ""
				}
				o.mu.Unlock()
				o.printf("%.0f s … %s", time.Since(start).Seconds(), end)
			case <-done:
				return
			}
		}
	}()
	return func() {
		ticker.Stop()
		close(done)
	}
}
