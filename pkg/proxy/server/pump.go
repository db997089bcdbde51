package server

import (
	"errors"
	"io"
	"syscall"
)

// copy starts to copy in both directions, and returns.
func (c *conn) copy(first []byte) {
	client, err := newSocket(c.client.tcp.Load())
	if err == nil {
		var upstream *socket
		if upstream, err = newSocket(c.upstream.tcp.Load()); err == nil {
			c.directions.Store(2)
			go c.pump(&c.client, &c.upstream, client, first)
			go c.pump(&c.upstream, &c.client, upstream, nil)
			return
		}
	}
	c.end()
}

// pump copies from one end, which the socket reads, to the other until either has ended. first are bytes of plaintext
// that were read before.
func (c *conn) pump(from, to *end, s *socket, first []byte) {
	var err error
	if from.tls != nil {
		from.transport.fed, from.transport.unread = true, 0
		err = c.decrypt(from, to, s)
	} else {
		err = c.forward(to, s, first)
	}
	if from == &c.client {
		c.clientEnds(err)
	} else {
		c.upstreamEnds(err)
	}
	if c.directions.Add(-1) == 0 {
		c.end()
	} else if c.clientEnded.Load() && from == &c.client && s.awaitReset() {
		c.kill(true)
	}
}

// decrypt copies from an end that speaks TLS.
func (c *conn) decrypt(from, to *end, s *socket) error {
	var plain sizer
	t := from.transport
	err := c.decryptAll(from, to, &plain) // bytes that were read with the end of the handshake
	for err == errWouldBlock {            //nolint:errorlint // it is never wrapped
		b, readErr := s.next()
		switch {
		case errors.Is(readErr, io.EOF):
			t.ended = true
		case readErr != nil:
			return readErr
		}
		t.pending = b
		t.unread += len(b)
		err = c.decryptAll(from, to, &plain)
		s.release()
		if t.unread > t.most {
			err = errUnread
		}
	}
	return err
}

// decryptAll sends all pending data to the other end, and then returns errWouldBlock.
func (c *conn) decryptAll(from, to *end, plain *sizer) error {
	buf := plain.get()
	defer plain.put(buf)
	for {
		n := 0
		var err error
		for err == nil && n < len(*buf) {
			var more int
			more, err = from.tls.Read((*buf)[n:])
			n += more
		}
		if n > 0 {
			plain.used(n)
			from.transport.unread = 0
			if writeErr := c.send(to, (*buf)[:n]); writeErr != nil {
				return writeErr
			}
		}
		if err != nil {
			return err
		}
	}
}

// errUpstreamGone means that a write to the upstream failed. Data from the upstream may still arrive.
var errUpstreamGone = errors.New("the upstream does not accept more data")

func (c *conn) send(to *end, b []byte) error {
	c.moved.Store(c.server.now.Load())
	err := to.write(b)
	if err == nil || to == &c.client {
		return err
	}
	if errors.Is(err, syscall.ECONNRESET) { // the kernel returns it only once: the other direction reads io.EOF
		c.upstreamReset.Store(true)
	}
	return errUpstreamGone
}

// forward copies from an end that speaks plaintext. It sends the first bytes together with those that have arrived
// since, because some programs expect a request in one piece.
func (c *conn) forward(to *end, s *socket, first []byte) error {
	if len(first) > 0 {
		buf := s.get()
		n := copy(*buf, first)
		var more int
		var failed error
		_ = s.raw.Read(func(fd uintptr) bool {
			more, failed = syscall.Read(int(fd), (*buf)[n:])
			return true
		})
		err := c.send(to, (*buf)[:n+max(more, 0)])
		s.put(buf)
		if errors.Is(failed, syscall.ECONNRESET) { // the kernel returns it only once
			err = failed
		}
		if err != nil {
			return err
		}
	}
	for {
		b, err := s.next()
		if err == nil {
			err = c.send(to, b)
			s.release()
		}
		if err != nil {
			return err
		}
	}
}

// clientEnds passes the end of the client's side on to the upstream.
func (c *conn) clientEnds(err error) {
	switch {
	case errors.Is(err, io.EOF):
		c.moved.Store(c.server.elapsed())
		c.clientEnded.Store(true)
		c.server.conns.asked(c)
		c.upstream.closeWrite()
	case errors.Is(err, errUpstreamGone):
		c.moved.Store(c.server.elapsed())
		c.upstreamEnded.Store(true) // its last data is still sent to the client
	default:
		c.kill(true)
	}
}

// upstreamEnds passes the end of the upstream's side on to the client.
func (c *conn) upstreamEnds(err error) {
	if !errors.Is(err, io.EOF) || c.upstreamReset.Load() {
		c.refusedByServer(err)
		c.kill(true)
		return
	}
	c.moved.Store(c.server.elapsed())
	c.upstreamEnded.Store(true)
	c.client.closeWrite()
}
