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

// Protocol is one whose connections begin with TLS, or with words of its own before that. The
// zero Protocol begins as TLS does.
type Protocol string

// The protocols, as annotations, flags and the table of programs name them.
const (
	TLS        Protocol = "tls" // TLS from the first byte on
	Postgres   Protocol = "postgres"
	MySQL      Protocol = "mysql" // and MariaDB
	SMTP       Protocol = "smtp"  // and submission
	IMAP       Protocol = "imap"
	LDAP       Protocol = "ldap"
	XMPP       Protocol = "xmpp"        // of clients
	XMPPServer Protocol = "xmpp-server" // between servers
	NATS       Protocol = "nats"
)

// dialect is what is known of a Protocol.
type dialect struct {
	protocol Protocol
	// names are those by which ports and their appProtocol call it, beside its own.
	names []string
	begin func(c *conversation, host string) error
	// listens: the server speaks first.
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

// OfPort returns the protocol of a port by its name, such as postgres or tcp-postgresql, or by
// its appProtocol, such as example.com/mysql; the zero Protocol if that says none.
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

// ErrSilent is that a server which should speak first said nothing in time. Nothing was said to it
// either: it may be one that waits for TLS.
var ErrSilent = errors.New("the server says nothing")

// ErrTLS is that a server has answered the first words in TLS, or closed the connection: it may be
// one that takes TLS from the first byte on.
var ErrTLS = errors.New("the server answers in TLS, or not at all")

// Begin says what comes before TLS and returns when a TLS handshake may begin on the
// connection. host is the name by which the server is called. A server that speaks first has to do
// so by the first of the two times. All is over by the second, to which the connection's deadline
// is set.
//
// It returns ErrSilent, an error that wraps ErrTLS, an [*Error], or what failed about the
// connection.
func (p Protocol) Begin(conn net.Conn, host string, greeting, until time.Time) error {
	i := slices.IndexFunc(dialects, func(d dialect) bool { return d.protocol == p })
	if i <= 0 {
		return conn.SetDeadline(until)
	}
	c := &conversation{conn: conn, step: "the first words", left: maxWords}
	var unheard error
	if dialects[i].listens {
		unheard = c.listen(greeting)
	}
	if err := cmp.Or(conn.SetDeadline(until), unheard); err != nil {
		return err
	}
	err := dialects[i].begin(c, host)
	if err == nil && len(c.read) > 0 {
		err = c.misunderstood(string(c.read))
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

// End says, on the TLS connection after Begin, what the server wants to hear before it is closed.
// That is a login in MySQL, which fails, and nothing in other protocols. The connection has a
// deadline.
func (p Protocol) End(conn net.Conn) {
	if p == MySQL {
		endMySQL(&conversation{conn: conn, left: maxWords})
	}
}

// Error is that a server answered, and that no TLS handshake may follow.
type Error struct {
	Protocol Protocol
	Step     string // what was said, or waited for
	// Declined: the server was understood, and offers no TLS.
	Declined bool
	// Answer is the beginning of what the server said.
	Answer string
}

// Error says at which step which answer was not understood, or that no TLS is offered.
func (e *Error) Error() string {
	if e.Declined {
		return fmt.Sprintf("%s: %s: the server offers no TLS: %q", e.Protocol, e.Step, e.Answer)
	}
	return fmt.Sprintf("%s: %s: the answer %q was not understood", e.Protocol, e.Step, e.Answer)
}
