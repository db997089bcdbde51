package server

import (
	"log/slog"
	"sync"
	"time"

	"github.com/servingcert/servingcert/pkg/limit"
)

// lines limits the lines of each message, so that clients cannot fill the log.
var lines = limit.Limit{Burst: 10, Interval: 10 * time.Second}

// limitedLog suppresses lines of a message that is repeated too often, and logs their number.
type limitedLog struct {
	log   *slog.Logger
	clock func() time.Time

	mu       sync.Mutex
	messages map[string]*message
}

type message struct {
	full time.Time // the state of limit.Limit
	left int       // lines suppressed since the last one
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
