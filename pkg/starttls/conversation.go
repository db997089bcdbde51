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
	// maxWords is the most bytes that are read before TLS. The longest of ordinary servers are a
	// few hundred.
	maxWords = 16 << 10
	// maxLines is the most lines of one answer.
	maxLines = 100
	// maxAnswer is how many bytes of an answer an Error repeats.
	maxAnswer = 80
)

// conversation is a connection before TLS begins.
type conversation struct {
	conn net.Conn
	step string // what was said last, or is waited for
	read []byte // and not taken yet
	left int    // how many bytes may be read
}

// listen waits for the first bytes of a server until then.
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

// say sends text. What is read next is the answer to step.
func (c *conversation) say(step, text string) error {
	c.step = step
	_, err := io.WriteString(c.conn, text)
	return err
}

// fill reads what there is.
func (c *conversation) fill() error {
	if c.left <= 0 {
		return c.misunderstood(string(c.read))
	}
	c.read = slices.Grow(c.read, 512) // an ordinary answer
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

// first returns the first byte of an answer, and ErrTLS if it begins an alert of TLS (RFC 8446,
// section 5.1) or there is none: a TLS server answers other words so.
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

// until returns what comes up to and with the first of the endings that is there.
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

// line returns the next line, without its end.
func (c *conversation) line() (string, error) {
	line, err := c.until("\n")
	return strings.TrimRight(line, "\r\n"), err
}

// since returns what was read last, and what follows it, for errors.
func (c *conversation) since(taken ...byte) string { return string(taken) + string(c.read) }

// misunderstood returns the error that an answer was not understood.
func (c *conversation) misunderstood(answer string) error {
	return &Error{Step: c.step, Answer: beginning(answer)}
}

// declined returns the error that the server offers no TLS.
func (c *conversation) declined(answer string) error {
	return &Error{Step: c.step, Declined: true, Answer: beginning(answer)}
}

func beginning(answer string) string { return answer[:min(len(answer), maxAnswer)] }
