package server

import (
	"crypto/tls"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkInbound measures connections of TLS clients to a program in the same process.
func BenchmarkInbound(b *testing.B) {
	w := start(b, program(b, echo))
	benchmark(b, func() io.ReadWriteCloser {
		return tls.Client(w.dial(strict), clientConfig())
	})
}

// benchmark measures requests of 100 bytes and of 16 KiB on a kept connection, and of 100 bytes on new ones.
func benchmark(b *testing.B, connect func() io.ReadWriteCloser) {
	ask := func(b *testing.B, c io.ReadWriter, request, answer []byte) {
		_, err := c.Write(request)
		require.NoError(b, err)
		_, err = io.ReadFull(c, answer)
		require.NoError(b, err)
	}
	for name, size := range map[string]int{"kept/100B": 100, "kept/16KiB": 16 << 10} {
		b.Run(name, func(b *testing.B) {
			request, answer := make([]byte, size), make([]byte, size)
			request[0] = 'x' // a kind that is known at once
			c := connect()
			ask(b, c, request, answer)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				ask(b, c, request, answer)
			}
			require.NoError(b, c.Close())
		})
	}
	b.Run("new", func(b *testing.B) {
		request, answer := []byte("x"), make([]byte, 1)
		b.ReportAllocs()
		for b.Loop() {
			c := connect()
			ask(b, c, request, answer)
			require.NoError(b, c.Close())
		}
	})
}
