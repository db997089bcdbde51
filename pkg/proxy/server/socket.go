package server

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
)

// Sizes of buffers. A connection has no buffer while it is idle, and a small one until a read fills it.
// After that it has a large one. There are at most mostLarge of these, because a peer that does not read
// keeps a buffer in use, and memory is reserved only for small ones.
const (
	smallBuffer = 4 << 10
	largeBuffer = 32 << 10
	mostLarge   = 64
)

// largeInUse is the number of large buffers in use.
var largeInUse atomic.Int32

var small, large = pool(smallBuffer), pool(largeBuffer)

func pool(size int) *sync.Pool {
	return &sync.Pool{New: func() any { b := make([]byte, size); return &b }}
}

// sizer chooses the size of the next buffer of one direction.
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

// used records how many bytes of a buffer of get were used.
func (s *sizer) used(n int) { s.large = n > smallBuffer || n == smallBuffer && !s.large }

// socket reads from a connection. It holds no buffer while it waits.
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
		if s.err != syscall.EINTR { //nolint:errorlint // from a system call
			break
		}
	}
	if s.err == syscall.EAGAIN { //nolint:errorlint // from a system call
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

// awaitReset waits for a reset after the end of the peer's side, which no read returns. It returns false if the
// connection is closed first.
func (s *socket) awaitReset() bool {
	reset := false
	err := s.raw.Read(func(fd uintptr) bool {
		failed, err := syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_ERROR)
		reset = err == nil && failed != 0
		return reset
	})
	return err == nil && reset
}

func (s *socket) release() {
	if s.buf != nil {
		s.put(s.buf)
		s.buf = nil
	}
}

// waitReadable waits until the connection has data or has ended. It does not read the data, but an error,
// which the kernel returns only once.
func waitReadable(c *net.TCPConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var b [1]byte
	var failed error
	if err = raw.Read(func(fd uintptr) bool {
		_, _, failed = syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		return !errors.Is(failed, syscall.EAGAIN) && !errors.Is(failed, syscall.EINTR)
	}); err == nil {
		err = failed
	}
	return err
}

// transport is the connection below TLS. During the handshake it reads from the connection. After that it
// reads only from pending, and returns errWouldBlock if that is empty. So an idle connection holds neither
// a buffer for decrypted data nor the stack of the decryption.
type transport struct {
	*net.TCPConn
	pending []byte
	fed     bool // it reads only from pending
	ended   bool
	// unread is the number of bytes received since the last data, at most most. crypto/tls keeps incomplete messages of
	// the handshake, up to 64 KiB or for certificates 256 KiB, during the handshake and after it, in twice the memory.
	unread int
	most   int
	// verify judges the client in a handshake, if the port is guarded.
	verify func(tls.ConnectionState) error
	// probes: the client offers proxy.ProbeProtocol.
	probes bool
}

// mostUnread is above the size of a ClientHello with a post-quantum key (2 KiB) and of a record (16.3 KiB). mostOfGuarded
// is above that of two ClientHellos with a ticket and of a chain, each with four certificates of RSA keys (6 KiB).
// mostOfServer is above that of a certificate with as many names as a Service may have (26 KiB), and three more of RSA keys.
const (
	mostUnread    = 20 << 10
	mostOfGuarded = 24 << 10
	mostOfServer  = 36 << 10
)

var errUnread = errors.New("too many bytes without a complete handshake message or data")

// errWouldBlock is returned if nothing is pending. crypto/tls can continue after a temporary error.
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
		if t.unread >= t.most {
			return 0, errUnread
		}
		n, err := t.TCPConn.Read(p[:min(len(p), t.most-t.unread)])
		t.unread += n
		return n, err
	case t.ended:
		return 0, io.EOF
	}
	return 0, errWouldBlock
}
