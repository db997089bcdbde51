package starttls

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"
)

const (
	// maxRead is the maximum number of bytes read before TLS. Ordinary servers send at most a
	// few hundred.
	maxRead = 16 << 10
	// maxLines is the maximum number of lines of one answer.
	maxLines = 100
	// maxAnswer is the number of bytes of an answer that an Error repeats.
	maxAnswer = 80
)

// conversation is a connection before TLS begins.
type conversation struct {
	conn net.Conn
	step string // the message that was sent last, or is expected
	read []byte // bytes that were read but not taken
	left int    // the number of bytes that may still be read
}

// listen waits for the first bytes of a server.
func (c *conversation) listen(until time.Time) error {
	c.step = "the greeting"
	if err := c.conn.SetDeadline(until); err != nil {
		return err
	}
	err := c.fill()
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return ErrSilent
	}
	return err
}

// send sends text. The next answer belongs to step.
func (c *conversation) send(step, text string) error {
	c.step = step
	_, err := io.WriteString(c.conn, text)
	return err
}

// fill reads the available bytes.
func (c *conversation) fill() error {
	if c.left <= 0 {
		return c.unexpected(string(c.read))
	}
	c.read = slices.Grow(c.read, 512) // enough for an ordinary answer
	had := len(c.read)
	n, err := c.conn.Read(c.read[had:min(cap(c.read), had+c.left)])
	c.read, c.left = c.read[:had+n], c.left-n
	if n > 0 {
		return nil
	}
	return err
}

// take returns the next n bytes.
func (c *conversation) take(n int) ([]byte, error) {
	for len(c.read) < n {
		if err := c.fill(); err != nil {
			return nil, err
		}
	}
	taken := c.read[:n]
	c.read = c.read[n:]
	return taken, nil
}

// first returns the first byte of an answer. It returns ErrTLS if that byte begins a TLS alert (RFC
// 8446, section 5.1) or the connection was closed: so a TLS server reacts to other protocols.
func (c *conversation) first() (byte, error) {
	b, err := c.take(1)
	var timeout net.Error
	switch {
	case errors.As(err, &timeout) && timeout.Timeout():
		return 0, err
	case err != nil:
		return 0, fmt.Errorf("%w: %w", ErrTLS, err)
	case b[0] == 0x15:
		return 0, ErrTLS
	}
	return b[0], nil
}

// until returns the bytes up to and including the first of the endings.
func (c *conversation) until(endings ...string) (string, error) {
	for looked := 0; ; {
		end := -1
		for _, ending := range endings {
			from := max(0, looked-len(ending))
			if i := bytes.Index(c.read[from:], []byte(ending)); i >= 0 && (end < 0 || from+i+len(ending) < end) {
				end = from + i + len(ending)
			}
		}
		if end >= 0 {
			taken := string(c.read[:end])
			c.read = c.read[end:]
			return taken, nil
		}
		looked = len(c.read)
		if err := c.fill(); err != nil {
			return "", err
		}
	}
}

// line returns the next line without its line break.
func (c *conversation) line() (string, error) {
	line, err := c.until("\n")
	return strings.TrimRight(line, "\r\n"), err
}

// since returns the taken bytes and those after them, for errors.
func (c *conversation) since(taken ...byte) string { return string(taken) + string(c.read) }

// unexpected returns the error for an unexpected answer.
func (c *conversation) unexpected(answer string) error {
	return &Error{Step: c.step, Answer: beginning(answer)}
}

// declined returns the error for a server that offers no TLS.
func (c *conversation) declined(answer string) error {
	return &Error{Step: c.step, Declined: true, Answer: beginning(answer)}
}

func beginning(answer string) string { return answer[:min(len(answer), maxAnswer)] }
