package server

import (
	"errors"
	"io"
	"syscall"
)

// copy begins to copy both ways. It does not wait for the end.
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

// ended ends one direction.
func (c *conn) ended() {
	if c.directions.Add(-1) == 0 {
		c.end()
	}
}

// decrypt copies from a TLS client to the program.
func (c *conn) decrypt(client *socket) {
	defer c.ended()
	var plain sizer
	err := c.decryptAll(&plain) // what was read with the end of the handshake
	for err == errWouldBlock {  //nolint:errorlint // it is that very one
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

// decryptAll sends what is pending to the program. It returns errWouldBlock when all was.
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

// errProgramGone: the program takes nothing more. What it has said may still be on its way.
var errProgramGone = errors.New("the program takes nothing more")

func (c *conn) toProgram(b []byte) error {
	c.moved.Store(c.server.now.Load())
	if _, err := c.upstream.Load().Write(b); err != nil {
		return errProgramGone
	}
	return nil
}

// forward copies from a plaintext client to the program. What it begins with is sent together with
// what has arrived since: some programs expect a request in one piece.
func (c *conn) forward(client *socket, first []byte) {
	defer c.ended()
	if len(first) > 0 {
		buf := client.get()
		n := copy(*buf, first)
		_ = client.raw.Read(func(fd uintptr) bool {
			if more, _ := syscall.Read(int(fd), (*buf)[n:]); more > 0 {
				n += more
			}
			return true
		})
		err := c.toProgram((*buf)[:n])
		client.put(buf)
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

// clientEnded passes on how the client's side ended.
func (c *conn) clientEnded(err error) {
	switch {
	case errors.Is(err, io.EOF):
		_ = c.upstream.Load().CloseWrite()
	case errors.Is(err, errProgramGone):
		c.moved.Store(c.server.cfg.Clock().UnixNano())
		c.programEnded.Store(true) // what it said last is still sent
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
		case errors.Is(err, io.EOF):
			c.programEnds()
			return
		case err != nil:
			c.kill(true)
			return
		}
	}
}

// programEnds passes on that the program has said all.
func (c *conn) programEnds() {
	c.moved.Store(c.server.cfg.Clock().UnixNano())
	c.programEnded.Store(true)
	if c.tls != nil {
		_ = c.tls.CloseWrite()
	}
	_ = c.client.CloseWrite()
}
