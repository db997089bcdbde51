package process

import (
	"bytes"
	"io"
	"os"
	"strings"
	"sync"
)

// Log is the output of a program, in memory or in a file.
type Log struct {
	File string // to append to; empty: in memory

	mu  sync.Mutex
	buf bytes.Buffer
}

// open returns the output for a process, and a function to call once the process has started.
func (l *Log) open() (out io.Writer, done func(), err error) {
	if l.File == "" {
		return l, func() {}, nil
	}
	f, err := os.OpenFile(l.File, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, nil, err
	}
	return f, func() { _ = f.Close() }, nil
}

// Write implements io.Writer.
func (l *Log) Write(p []byte) (int, error) {
	if l.File != "" {
		out, done, err := l.open()
		if err != nil {
			return 0, err
		}
		defer done()
		return out.Write(p)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// String returns the whole log.
func (l *Log) String() string {
	if l.File != "" {
		data, err := os.ReadFile(l.File)
		if err != nil {
			return err.Error()
		}
		return string(data)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// Tail returns the last lines, at least one and at most n.
func (l *Log) Tail(n int) []string {
	lines := strings.Split(strings.TrimSpace(l.String()), "\n")
	return lines[max(0, len(lines)-n):]
}
