package queue

import (
	"slices"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Logs returns a controller.Options.LogConstructor, whose lines have what those of
// controller-runtime's have. It formats nothing until there is a line: most requests are
// looked at without one.
func Logs(base logr.Logger, controller string) func(*reconcile.Request) logr.Logger {
	base = base.WithValues("controller", controller)
	return func(r *reconcile.Request) logr.Logger {
		if r == nil {
			return base
		}
		return logr.New(&lateSink{base.GetSink(), []any{"object", klog.KRef(r.Namespace, r.Name), "namespace", r.Namespace, "name", r.Name}})
	}
}

// lateSink gives the values of a logger to another sink with each line, and not before.
type lateSink struct {
	logr.LogSink
	values []any
}

// Init does nothing: the other sink is shared, and has been made ready.
func (*lateSink) Init(logr.RuntimeInfo) {}

// Info writes a line.
func (s *lateSink) Info(level int, msg string, keysAndValues ...any) {
	s.LogSink.Info(level, msg, slices.Concat(s.values, keysAndValues)...)
}

// Error writes a line about an error.
func (s *lateSink) Error(err error, msg string, keysAndValues ...any) {
	s.LogSink.WithValues(s.values...).Error(err, msg, keysAndValues...)
}

// WithValues returns a sink for lines with more values.
func (s *lateSink) WithValues(keysAndValues ...any) logr.LogSink {
	return &lateSink{s.LogSink, slices.Concat(s.values, keysAndValues)}
}

// WithName returns a sink for lines with another name.
func (s *lateSink) WithName(name string) logr.LogSink {
	return s.LogSink.WithValues(s.values...).WithName(name)
}
