package server

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
)

// Sizes of buffers. A connection holds none while it is idle, a small one as long as reads do not
// fill it, and a large one after, of which there are mostLarge at a time: a peer that does not read
// keeps a buffer for as long as it likes, and memory is set aside for small ones.
const (
	smallBuffer = 4 << 10
	largeBuffer = 32 << 10
	mostLarge   = 64
)

// largeInUse is how many large buffers there are.
var largeInUse atomic.Int32

var small, large = pool(smallBuffer), pool(largeBuffer)

func pool(size int) *sync.Pool {
	return &sync.Pool{New: func() any { b := make([]byte, size); return &b }}
}

// sizer says how large the next buffer of one direction is.
type sizer struct{ large bool }

func (s *sizer) get() *[]byte {
	for n := largeInUse.Load(); s.large && n < mostLarge; n = largeInUse.Load() {
		if largeInUse.CompareAndSwap(n, n+1) {
			return large.Get().(*[]byte)
		}
	}
	return small.Get().(*[]byte)
}

func (*sizer) put(b *[]byte) {
	if len(*b) == largeBuffer {
		large.Put(b)
		largeInUse.Add(-1)
		return
	}
	small.Put(b)
}

// used says how much of a buffer of get was used.
func (s *sizer) used(n int) { s.large = n > smallBuffer || n == smallBuffer && !s.large }

// socket reads from a connection without a buffer while there is nothing to read.
type socket struct {
	sizer
	raw syscall.RawConn
	buf *[]byte
	n   int
	err error
	try func(fd uintptr) bool
}

func newSocket(c *net.TCPConn) (*socket, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	s := &socket{raw: raw}
	s.try = s.read
	return s, nil
}

// read reads into a new buffer, and returns false if there is nothing to read.
func (s *socket) read(fd uintptr) bool {
	s.buf = s.get()
	for {
		s.n, s.err = syscall.Read(int(fd), *s.buf)
		if s.err != syscall.EINTR { //nolint:errorlint // of a system call
			break
		}
	}
	if s.err == syscall.EAGAIN { //nolint:errorlint // of a system call
		s.release()
		return false
	}
	return true
}

// next waits for bytes. They are valid until release. At the end it returns io.EOF.
func (s *socket) next() ([]byte, error) {
	err := s.raw.Read(s.try)
	if err == nil && s.err != nil {
		err = s.err
	}
	if err == nil && s.n <= 0 {
		err = io.EOF
	}
	if err != nil {
		s.release()
		return nil, err
	}
	s.used(s.n)
	return (*s.buf)[:s.n], nil
}

func (s *socket) release() {
	if s.buf != nil {
		s.put(s.buf)
		s.buf = nil
	}
}

// waitReadable waits until there is something to read, or the end, and reads nothing.
func waitReadable(c *net.TCPConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var b [1]byte
	return raw.Read(func(fd uintptr) bool {
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		return err != syscall.EAGAIN && err != syscall.EINTR
	})
}

// transport is what is below TLS. In the handshake it reads from the connection. After it, it
// reads what it is given, and would otherwise block: so that nothing is held while the connection
// is idle, neither a buffer for what is decrypted nor the stack that decrypting needs.
type transport struct {
	*net.TCPConn
	pending []byte
	fed     bool // what is read is given
	ended   bool
	// unread is how many bytes came since the last that were data. crypto/tls keeps what is not whole: a message
	// of the handshake up to 64 KiB, before the handshake has ended and after it.
	unread int
}

// mostUnread is more than a ClientHello with a post-quantum key and the longest record have, 2 and 16.3 KiB.
const mostUnread = 20 << 10

var errUnread = errors.New("the client sent 20 KiB that are neither a handshake nor data")

// errWouldBlock is returned where nothing is pending. crypto/tls goes on after a temporary error.
var errWouldBlock error = wouldBlock{}

type wouldBlock struct{}

func (wouldBlock) Error() string   { return "nothing to read" }
func (wouldBlock) Timeout() bool   { return true }
func (wouldBlock) Temporary() bool { return true }

func (t *transport) Read(p []byte) (int, error) {
	if len(t.pending) > 0 {
		n := copy(p, t.pending)
		t.pending = t.pending[n:]
		return n, nil
	}
	switch {
	case !t.fed:
		if t.unread >= mostUnread {
			return 0, errUnread
		}
		n, err := t.TCPConn.Read(p[:min(len(p), mostUnread-t.unread)])
		t.unread += n
		return n, err
	case t.ended:
		return 0, io.EOF
	}
	return 0, errWouldBlock
}
