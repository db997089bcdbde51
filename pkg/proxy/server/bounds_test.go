package server

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// endOf returns how a connection ends for its client, and discards all data.
func endOf(raw *net.TCPConn) <-chan error {
	end := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, raw)
		end <- err
	}()
	return end
}

// crypto/tls would keep an incomplete ClientHello of up to 64 KiB.
func TestAClientHelloIsBounded(t *testing.T) {
	w := start(t, program(t, echo), func(c *Config) { c.Limits.Handshake = time.Hour })
	for _, name := range []string{strict, both} {
		raw := w.dial(name)
		end := endOf(raw)
		hello := append([]byte{1, 0, 0xfd, 0xe8}, make([]byte, 21<<10)...)
		for part := range slices.Chunk(hello, 1<<14) {
			if _, err := raw.Write(append(binary.BigEndian.AppendUint16([]byte{22, 3, 1}, uint16(len(part))), part...)); err != nil {
				break // the proxy closed it
			}
		}
		require.NotErrorIs(t, <-end, os.ErrDeadlineExceeded, "it waits for the rest")
		w.eventually("nothing is left of it", func() bool { return w.conns.len() == 0 })
	}
	send(t, w.tls(strict), "ping")
}

// inPieces sends the first bytes of a connection, waits, and sends the rest.
type inPieces struct {
	*net.TCPConn
	first int
	wait  func()
	sent  int
}

func (c *inPieces) Write(p []byte) (int, error) {
	if c.sent > 0 {
		return c.TCPConn.Write(p)
	}
	c.sent = len(p)
	if n, err := c.TCPConn.Write(p[:c.first]); err != nil {
		return n, err
	}
	c.wait()
	n, err := c.TCPConn.Write(p[c.first:])
	return c.first + n, err
}

// A ClientHello of 2 KB, as with a post-quantum key, may arrive in two segments of any size.
func TestAClientHelloInPieces(t *testing.T) {
	w := start(t, program(t, echo))
	var many []string
	for i := range 13 {
		many = append(many, strings.Repeat(string(rune('a'+i)), 40))
	}
	for _, name := range []string{strict, both} {
		for _, first := range []int{1, 5, 6, 1400} {
			raw := w.dial(name)
			pieces := &inPieces{TCPConn: raw, first: first, wait: func() {
				w.eventually("the first bytes were read", func() bool { return w.hasRead(raw) })
			}}
			client := tls.Client(pieces, clientConfig(many...))
			require.NoError(t, client.Handshake(), "%s, %d bytes", name, first)
			require.Greater(t, pieces.sent, 2000)
			require.Equal(t, tls.X25519MLKEM768, client.ConnectionState().CurveID)
			send(t, client, "ping")
		}
	}
}

// hasRead reports whether the proxy has read what its client has sent so far.
func (w *world) hasRead(client *net.TCPConn) bool {
	for _, c := range w.conns.all() {
		if c.client.tcp.Load().RemoteAddr().String() != client.LocalAddr().String() {
			continue
		}
		raw, err := c.client.tcp.Load().SyscallConn()
		require.NoError(w.t, err)
		left := 0
		require.NoError(w.t, raw.Control(func(fd uintptr) { left, err = unix.IoctlGetInt(int(fd), unix.TIOCINQ) }))
		require.NoError(w.t, err)
		return left == 0
	}
	return false
}

// A handshake message that is sent after the handshake is bounded too.
func TestAMessageAfterTheHandshakeIsBounded(t *testing.T) {
	w := start(t, program(t, echo))
	raw := w.dial(strict)
	var secrets bytes.Buffer
	config := clientConfig()
	config.KeyLogWriter = &secrets
	client := tls.Client(raw, config)
	require.NoError(t, client.Handshake())
	require.Equal(t, tls.TLS_AES_128_GCM_SHA256, client.ConnectionState().CipherSuite)
	w.eventually("established", func() bool { return w.serving() == 1 })
	seal := sealer(t, secrets.String(), "CLIENT")
	end := endOf(raw)
	message := append([]byte{24, 0, 0xfd, 0xe8}, make([]byte, 21<<10)...) // a KeyUpdate
	for part := range slices.Chunk(message, 1<<14) {
		if _, err := raw.Write(seal(append(bytes.Clone(part), 22))); err != nil {
			break
		}
	}
	require.NotErrorIs(t, <-end, os.ErrDeadlineExceeded, "it waits for the rest")
	w.eventually("nothing is left of it", func() bool { return w.conns.len() == 0 })
}

// sealer returns a function that encrypts records of a TLS 1.3 CLIENT or SERVER: content followed by its type (RFC 8446,
// 5.2).
func sealer(t *testing.T, keyLog, side string) func(inner []byte) []byte {
	t.Helper()
	var secret []byte
	for line := range strings.Lines(keyLog) {
		if fields := strings.Fields(line); fields[0] == side+"_TRAFFIC_SECRET_0" {
			var err error
			secret, err = hex.DecodeString(fields[2])
			require.NoError(t, err)
		}
	}
	expand := func(label string, length int) []byte {
		info := binary.BigEndian.AppendUint16(nil, uint16(length))
		info = append(append(info, byte(len("tls13 ")+len(label))), "tls13 "+label...)
		out, err := hkdf.Expand(sha256.New, secret, string(append(info, 0)), length)
		require.NoError(t, err)
		return out
	}
	block, err := aes.NewCipher(expand("key", 16))
	require.NoError(t, err)
	aead, err := cipher.NewGCM(block)
	require.NoError(t, err)
	iv, number := expand("iv", 12), uint64(0)
	return func(inner []byte) []byte {
		nonce := bytes.Clone(iv)
		for i, b := range binary.BigEndian.AppendUint64(nil, number) {
			nonce[4+i] ^= b
		}
		number++
		header := binary.BigEndian.AppendUint16([]byte{23, 3, 3}, uint16(len(inner)+aead.Overhead()))
		return aead.Seal(header, nonce, inner, header)
	}
}

// A client that closes without close_notify has ended its side, as many do. An end within a record is an error.
func TestTheEndWithoutCloseNotify(t *testing.T) {
	got := make(chan error, 2)
	w := start(t, program(t, func(c *net.TCPConn) {
		_, err := io.Copy(io.Discard, c)
		got <- err
	}))
	for name, rest := range map[string][]byte{"between records": nil, "in a record": {23, 3, 3, 0, 40, 1, 2}} {
		raw := w.dial(strict)
		client := tls.Client(raw, clientConfig())
		require.NoError(t, client.Handshake())
		_, err := io.WriteString(client, "x")
		require.NoError(t, err)
		_, err = raw.Write(rest)
		require.NoError(t, err)
		require.NoError(t, raw.CloseWrite())
		if err := <-got; rest == nil {
			require.NoError(t, err, name)
		} else {
			require.Error(t, err, name)
		}
	}
}

// Many clients that do not read a long response keep few large buffers: memory is reserved only for small ones.
func TestLargeBuffersAreBounded(t *testing.T) {
	w := start(t, program(t, func(c *net.TCPConn) {
		for b := make([]byte, 1<<20); ; {
			if _, err := c.Write(b); err != nil {
				return
			}
		}
	}))
	full := 0
	for range mostLarge + 16 {
		_, err := io.WriteString(w.tls(strict), "x")
		require.NoError(t, err)
	}
	w.eventually("all large buffers wait for a client", func() bool {
		used := int(largeInUse.Load())
		require.LessOrEqual(t, used, mostLarge)
		if used == mostLarge {
			full++
		}
		return full > 10
	})
	w.stop()
	require.Zero(t, largeInUse.Load(), "they are returned")
}
