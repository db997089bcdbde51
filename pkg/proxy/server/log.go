package server

import (
	"log/slog"
	"sync"
	"time"

	"github.com/servingcert/servingcert/pkg/limit"
)

// lines is how many lines of one message are logged: who connects must not fill a log.
var lines = limit.Limit{Burst: 10, Interval: 10 * time.Second}

// limitedLog leaves out lines of a message that is repeated too often, and says how many.
type limitedLog struct {
	log   *slog.Logger
	clock func() time.Time

	mu       sync.Mutex
	messages map[string]*message
}

type message struct {
	full time.Time // as limit.Limit has it
	left int       // how many lines were left out since the last
}

func newLimitedLog(log *slog.Logger, clock func() time.Time) *limitedLog {
	return &limitedLog{log: log, clock: clock, messages: map[string]*message{}}
}

func (l *limitedLog) info(text string, fields ...any) { l.write(l.log.Info, text, fields) }

func (l *limitedLog) warn(text string, fields ...any) { l.write(l.log.Warn, text, fields) }

func (l *limitedLog) error(text string, fields ...any) { l.write(l.log.Error, text, fields) }

func (l *limitedLog) write(to func(string, ...any), text string, fields []any) {
	left, ok := l.take(text)
	if !ok {
		return
	}
	if left > 0 {
		fields = append(fields, "suppressed", left)
	}
	to(text, fields...)
}

func (l *limitedLog) take(text string) (left int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.messages[text]
	if m == nil {
		m = &message{}
		l.messages[text] = m
	}
	now := l.clock()
	at, full := lines.Take(m.full, now, 1)
	if at.After(now) {
		m.left++
		return 0, false
	}
	left, m.full, m.left = m.left, full, 0
	return left, true
}
