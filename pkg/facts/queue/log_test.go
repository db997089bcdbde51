package queue

import (
	"bytes"
	"errors"
	"log/slog"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Lines are to the byte those that controller-runtime's own logger writes.
func TestLinesAreThoseOfControllerRuntime(t *testing.T) {
	for name, handler := range map[string]func(*bytes.Buffer) slog.Handler{
		"text": func(b *bytes.Buffer) slog.Handler { return slog.NewTextHandler(b, without("time")) },
		"JSON": func(b *bytes.Buffer) slog.Handler { return slog.NewJSONHandler(b, without("time")) },
	} {
		t.Run(name, func(t *testing.T) {
			var want, got bytes.Buffer
			theirs := logr.FromSlogHandler(handler(&want)).WithValues("controller", "signer")
			of := Logs(logr.FromSlogHandler(handler(&got)), "signer")
			r := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "shop", Name: "web-tls"}}
			write := func(none, one logr.Logger) {
				none.Info("Starting EventSource", "source", "x")
				one = one.WithValues("reconcileID", "7")
				one.Info("certificate issued", "reason", "FirstIssue")
				one.Error(errors.New("no"), "Reconciler error", "n", 1)
				one.V(1).Info("not shown")
				one.WithName("part").WithValues("a", 1).Info("x")
			}
			write(theirs, theirs.WithValues("object", klog.KRef("shop", "web-tls"), "namespace", "shop", "name", "web-tls"))
			write(of(nil), of(&r))
			assert.Equal(t, want.String(), got.String())
			assert.Contains(t, got.String(), "web-tls")
		})
	}
}

func without(key string) *slog.HandlerOptions {
	return &slog.HandlerOptions{ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if a.Key == key && len(groups) == 0 {
			return slog.Attr{}
		}
		return a
	}}
}

// What one request's lines say is not in those of another.
func TestLinesOfRequestsAreApart(t *testing.T) {
	var out bytes.Buffer
	of := Logs(logr.FromSlogHandler(slog.NewTextHandler(&out, nil)), "signer")
	first := of(&reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "shop", Name: "first"}}).WithValues("a", 1)
	first.WithValues("b", 2)
	first.WithValues("c", 3).Info("x")
	assert.Contains(t, out.String(), "c=3")
	assert.NotContains(t, out.String(), "b=2")
}
