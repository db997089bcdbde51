package server

import (
	"errors"
	"io"
	"syscall"
)

// copy starts to copy in both directions, and returns.
func (c *conn) copy(first []byte) {
	client, err := newSocket(c.client)
	if err == nil {
		var program *socket
		if program, err = newSocket(c.upstream.Load()); err == nil {
			c.directions.Store(2)
			if c.tls != nil {
				c.transport.fed, c.transport.unread = true, 0
				go c.decrypt(client)
			} else {
				go c.forward(client, first)
			}
			go c.answer(program)
			return
		}
	}
	c.end()
}

// ended marks one direction as ended.
func (c *conn) ended() {
	if c.directions.Add(-1) == 0 {
		c.end()
	}
}

// decrypt copies from a TLS client to the program.
func (c *conn) decrypt(client *socket) {
	defer c.ended()
	var plain sizer
	err := c.decryptAll(&plain) // bytes that were read with the end of the handshake
	for err == errWouldBlock {  //nolint:errorlint // it is never wrapped
		b, readErr := client.next()
		switch {
		case errors.Is(readErr, io.EOF):
			c.transport.ended = true
		case readErr != nil:
			c.clientEnded(readErr)
			return
		}
		c.transport.pending = b
		c.transport.unread += len(b)
		err = c.decryptAll(&plain)
		client.release()
		if c.transport.unread > mostUnread {
			err = errUnread
		}
	}
	c.clientEnded(err)
}

// decryptAll sends all pending data to the program, and then returns errWouldBlock.
func (c *conn) decryptAll(plain *sizer) error {
	buf := plain.get()
	defer plain.put(buf)
	for {
		n := 0
		var err error
		for err == nil && n < len(*buf) {
			var more int
			more, err = c.tls.Read((*buf)[n:])
			n += more
		}
		if n > 0 {
			plain.used(n)
			c.transport.unread = 0
			if writeErr := c.toProgram((*buf)[:n]); writeErr != nil {
				return writeErr
			}
		}
		if err != nil {
			return err
		}
	}
}

// errProgramGone means that a write to the program failed. Data from the program may still arrive.
var errProgramGone = errors.New("the program does not accept more data")

func (c *conn) toProgram(b []byte) error {
	c.moved.Store(c.server.now.Load())
	if _, err := c.upstream.Load().Write(b); err != nil {
		if errors.Is(err, syscall.ECONNRESET) { // the kernel returns it only once: answer reads io.EOF
			c.programReset.Store(true)
		}
		return errProgramGone
	}
	return nil
}

// forward copies from a plaintext client to the program. It sends the first bytes together with those
// that have arrived since, because some programs expect a request in one piece.
func (c *conn) forward(client *socket, first []byte) {
	defer c.ended()
	if len(first) > 0 {
		buf := client.get()
		n := copy(*buf, first)
		var more int
		var failed error
		_ = client.raw.Read(func(fd uintptr) bool {
			more, failed = syscall.Read(int(fd), (*buf)[n:])
			return true
		})
		err := c.toProgram((*buf)[:n+max(more, 0)])
		client.put(buf)
		if errors.Is(failed, syscall.ECONNRESET) { // the kernel returns it only once
			err = failed
		}
		if err != nil {
			c.clientEnded(err)
			return
		}
	}
	for {
		b, err := client.next()
		if err == nil {
			err = c.toProgram(b)
			client.release()
		}
		if err != nil {
			c.clientEnded(err)
			return
		}
	}
}

// clientEnded passes the end of the client's side on to the program.
func (c *conn) clientEnded(err error) {
	switch {
	case errors.Is(err, io.EOF):
		_ = c.upstream.Load().CloseWrite()
	case errors.Is(err, errProgramGone):
		c.moved.Store(c.server.elapsed())
		c.programEnded.Store(true) // its last data is still sent to the client
	default:
		c.kill(true)
	}
}

// answer copies from the program to the client.
func (c *conn) answer(program *socket) {
	defer c.ended()
	for {
		b, err := program.next()
		if err == nil {
			c.moved.Store(c.server.now.Load())
			if c.tls != nil {
				_, err = c.tls.Write(b)
			} else {
				_, err = c.client.Write(b)
			}
			program.release()
		}
		switch {
		case errors.Is(err, io.EOF) && !c.programReset.Load():
			c.programEnds()
			return
		case err != nil:
			c.kill(true)
			return
		}
	}
}

// programEnds passes the end of the program's side on to the client.
func (c *conn) programEnds() {
	c.moved.Store(c.server.elapsed())
	c.programEnded.Store(true)
	if c.tls != nil {
		_ = c.tls.CloseWrite()
	}
	_ = c.client.CloseWrite()
}
