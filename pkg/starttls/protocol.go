package starttls

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"
)

// Protocol is the protocol of a port before TLS. The zero Protocol is equivalent to TLS.
type Protocol string

// The protocols, as annotations, flags and the table of programs name them.
const (
	TLS        Protocol = "tls" // TLS from the first byte on
	Postgres   Protocol = "postgres"
	MySQL      Protocol = "mysql" // also MariaDB
	SMTP       Protocol = "smtp"  // also submission
	IMAP       Protocol = "imap"
	LDAP       Protocol = "ldap"
	XMPP       Protocol = "xmpp"        // client to server
	XMPPServer Protocol = "xmpp-server" // server to server
	NATS       Protocol = "nats"
)

// dialect implements a Protocol.
type dialect struct {
	protocol Protocol
	// names are other names of the protocol in port names and appProtocol.
	names []string
	begin func(c *conversation, host string) error
	// listens is true if the server speaks first.
	listens bool
}

var dialects = []dialect{
	{TLS, []string{"imaps", "ldaps", "smtps", "submissions"}, func(*conversation, string) error { return nil }, false},
	{Postgres, []string{"postgresql", "pgsql", "pg"}, beginPostgres, false},
	{MySQL, []string{"mariadb"}, beginMySQL, true},
	{SMTP, []string{"submission"}, beginSMTP, true},
	{IMAP, []string{"imap2", "imap4"}, beginIMAP, true},
	{LDAP, nil, beginLDAP, false},
	{XMPP, []string{"xmpp-client", "xmpp-c2s"}, beginXMPP("jabber:client"), false},
	{XMPPServer, []string{"xmpp-s2s"}, beginXMPP("jabber:server"), false},
	{NATS, nil, beginNATS, true},
}

// Protocols returns the names of all protocols.
func Protocols() []string {
	names := make([]string, len(dialects))
	for i, d := range dialects {
		names[i] = string(d.protocol)
	}
	return names
}

// Known reports whether p is one of the protocols.
func (p Protocol) Known() bool { return slices.Contains(Protocols(), string(p)) }

// OfPort returns the protocol for the name of a port, such as postgres or tcp-postgresql, or for
// its appProtocol, such as example.com/mysql; the zero Protocol if there is none of that name.
func OfPort(name string) Protocol {
	name = strings.ToLower(name[strings.LastIndexByte(name, '/')+1:])
	name = strings.TrimPrefix(name, "tcp-")
	for _, d := range dialects {
		if name == string(d.protocol) || slices.Contains(d.names, name) {
			return d.protocol
		}
	}
	return ""
}

// ErrSilent is the error for a server that should speak first and sent nothing in time. Nothing was
// sent to it either: it may wait for a TLS handshake.
var ErrSilent = errors.New("the server sent no greeting")

// ErrTLS is the error for a server that answered the first message with a TLS alert, or closed the
// connection: it may expect TLS from the first byte on.
var ErrTLS = errors.New("the server answered with a TLS alert, or closed the connection")

// Begin performs the exchange before TLS and returns when a TLS handshake may begin on the
// connection. host is the name of the server. greeting is the deadline for the first bytes of a
// server that speaks first. until is the deadline of the whole exchange; the connection keeps it.
//
// It returns ErrSilent, an error that wraps ErrTLS, an [*Error], or an error of the connection.
func (p Protocol) Begin(conn net.Conn, host string, greeting, until time.Time) error {
	i := slices.IndexFunc(dialects, func(d dialect) bool { return d.protocol == p })
	if i <= 0 {
		return conn.SetDeadline(until)
	}
	c := &conversation{conn: conn, step: "the first message", left: maxRead}
	var silent error
	if dialects[i].listens {
		silent = c.listen(greeting)
	}
	if err := cmp.Or(conn.SetDeadline(until), silent); err != nil {
		return err
	}
	err := dialects[i].begin(c, host)
	if err == nil && len(c.read) > 0 {
		err = c.unexpected(string(c.read))
	}
	var its *Error
	switch {
	case errors.As(err, &its):
		its.Protocol = p
		return its
	case err != nil:
		return fmt.Errorf("%s: %s: %w", p, c.step, err)
	}
	return nil
}

// End sends what the server expects on the TLS connection after Begin, before it is closed: a login
// for MySQL, which fails, and nothing for other protocols. The connection must have a deadline.
func (p Protocol) End(conn net.Conn) {
	if p == MySQL {
		endMySQL(&conversation{conn: conn, left: maxRead})
	}
}

// Error is the error for an answer that no TLS handshake may follow.
type Error struct {
	Protocol Protocol
	Step     string // the message that was sent, or expected
	// Declined is true if the answer means that the server offers no TLS.
	Declined bool
	// Answer is the beginning of the answer.
	Answer string
}

// Error returns the step, and the unexpected answer or that the server offers no TLS.
func (e *Error) Error() string {
	if e.Declined {
		return fmt.Sprintf("%s: %s: the server offers no TLS: %q", e.Protocol, e.Step, e.Answer)
	}
	return fmt.Sprintf("%s: %s: unexpected answer %q", e.Protocol, e.Step, e.Answer)
}
