package server

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestConnects(t *testing.T) {
	svc := newService(t)
	svc.serve(svc.config(), echoTLS)
	w := svc.outside()
	for _, name := range []string{atOnce, waits, either} {
		c := w.dial(name)
		send(t, c, "GET / HTTP/1.1\r\n\r\n")
		require.EqualValues(t, 1, w.of(name).counters.connect.Load(), name)
	}
}
