package starttls

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/test/bounded"
)

// script is a connection with a fixed sequence of answers.
type script struct {
	net.Conn // no other method is called
	answers  io.Reader
	said     strings.Builder
	deadline time.Time
}

func (s *script) Read(p []byte) (int, error)  { return s.answers.Read(p) }
func (s *script) Write(p []byte) (int, error) { return s.said.Write(p) }
func (s *script) SetDeadline(t time.Time) error {
	s.deadline = t
	return nil
}

var (
	greeting = time.Unix(1000, 0)
	end      = time.Unix(2000, 0)
)

const (
	mysqlTLS   = "\x4a\x00\x00\x00\x0a8.0.36\x00\x0b\x00\x00\x00abcdefgh\x00\xff\xff\xff\x02\x00\xff\xdf\x15\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00ijklmnopqrst\x00caching_sha2_password\x00"
	mysqlNoTLS = "\x4a\x00\x00\x00\x0a8.0.36\x00\x0b\x00\x00\x00abcdefgh\x00\xff\xf7\xff\x02\x00\xff\xdf\x15\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00ijklmnopqrst\x00caching_sha2_password\x00"
	stream     = "<?xml version='1.0'?><stream:stream id='1' xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' from='web.shop.svc' version='1.0'>"
	features   = "<stream:features><starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'><required/></starttls></stream:features>"
	ldapOK     = "\x30\x0c\x02\x01\x01\x78\x07\x0a\x01\x00\x04\x00\x04\x00"
)

// answers are those of servers that offer TLS; see the sources in the files of the protocols.
var answers = map[Protocol]string{
	Postgres:   "S",
	MySQL:      mysqlTLS,
	SMTP:       "220-mail.example.com\r\n220 ESMTP\r\n250-mail.example.com\r\n250-SIZE\r\n250-starttls\r\n250 HELP\r\n220 2.0.0 Ready\r\n",
	IMAP:       "* OK [CAPABILITY IMAP4rev1 STARTTLS] ready\r\n* CAPABILITY IMAP4rev1\r\na1 OK Begin TLS\r\n",
	LDAP:       ldapOK,
	XMPP:       stream + features + "<proceed xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>",
	XMPPServer: stream + features + "\n<proceed xmlns='urn:ietf:params:xml:ns:xmpp-tls'></proceed>",
	NATS:       `INFO {"server_id":"NA","tls_required":true,"port":4222}` + "\r\n",
}

func TestBegin(t *testing.T) {
	said := map[Protocol][]string{
		Postgres:   {"\x00\x00\x00\x08\x04\xd2\x16\x2f"},
		MySQL:      {"\x20\x00\x00\x01\x00\x8a\x00\x00\x00\x00\x00\x01\x2d" + strings.Repeat("\x00", 23)},
		SMTP:       {"EHLO servingcert.invalid\r\n", "STARTTLS\r\n"},
		IMAP:       {"a1 STARTTLS\r\n"},
		LDAP:       {"\x77\x18\x80\x161.3.6.1.4.1.1466.20037"},
		XMPP:       {"xmlns='jabber:client'", "to='web.shop.svc'", "<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>"},
		XMPPServer: {"xmlns='jabber:server'", "to='web.shop.svc'"},
	}
	for _, name := range Protocols() {
		p := Protocol(name)
		for how, read := range map[string]func(io.Reader) io.Reader{"at once": func(r io.Reader) io.Reader { return r }, "byte by byte": iotest.OneByteReader} {
			t.Run(name+", "+how, func(t *testing.T) {
				conn := &script{answers: read(strings.NewReader(answers[p]))}
				require.NoError(t, p.Begin(conn, "web.shop.svc", greeting, end))
				for _, want := range said[p] {
					assert.Contains(t, conn.said.String(), want)
				}
				assert.Equal(t, end, conn.deadline, "TLS has the rest of the time")
			})
		}
		// Bytes after the answer are an error: they must not be read as TLS.
		if p != TLS {
			err := p.Begin(&script{answers: strings.NewReader(answers[p] + "more")}, "web.shop.svc", greeting, end)
			assertAnswer(t, err, p, false, "more")
		}
	}
}

func TestBeginFails(t *testing.T) {
	tests := []struct {
		name     string
		p        Protocol
		answers  string
		declined bool
		answer   string
	}{
		{"no TLS", Postgres, "N", true, "N"},
		{"an error", Postgres, "E\x00\x00\x00\x0cSFATAL\x00", false, "SFATAL"},
		{"HTTP", Postgres, "HTTP/1.1 400 Bad Request\r\n\r\n", false, "HTTP/1.1 400"},
		{"no TLS", MySQL, mysqlNoTLS, true, "8.0.36"},
		{"it is full", MySQL, "\x17\x00\x00\x00\xff\x10\x04Too many connections", false, "Too many connections"},
		{"another version", MySQL, "\x05\x00\x00\x00\x099.0\x00", false, "9.0"},
		{"shorter than its capabilities", MySQL, "\x05\x00\x00\x00\x0a9.0\x00", false, "9.0"},
		{"nothing in it", MySQL, "\x00\x00\x00\x00", false, ""},
		{"longer than anything", MySQL, "\xff\xff\xff\x00\x0a", false, "\xff\xff\xff\x00"},
		{"HTTP", MySQL, "HTTP/1.1 400 Bad Request\r\n\r\n", false, "HTTP"},
		{"no TLS", SMTP, "220 ESMTP\r\n250-mail\r\n250 HELP\r\n", true, "250 HELP"},
		{"it shuts down", SMTP, "220 ESMTP\r\n250-mail\r\n250 STARTTLS\r\n421 4.3.2 shutting down\r\n", false, "421 4.3.2"},
		{"TLS is not available now", SMTP, "220 ESMTP\r\n250-mail\r\n250 STARTTLS\r\n454 4.7.0 TLS not available due to local problem\r\n", true, "454 4.7.0"},
		{"no service", SMTP, "554 no SMTP service here\r\n", false, "554"},
		{"no EHLO", SMTP, "220 SMTP\r\n502 not implemented\r\n", false, "502"},
		{"a short line", SMTP, "22\r\n", false, "22"},
		{"no code", SMTP, "* OK IMAP4rev1\r\n", false, "* OK"},
		{"a code of another kind", SMTP, "220 ESMTP\r\n250-mail\r\n250 STARTTLS\r\n354 go on\r\n", false, "354"},
		{"no TLS", IMAP, "* OK ready\r\na1 BAD unknown command\r\n", true, "a1 BAD"},
		{"logged in already", IMAP, "* PREAUTH hello\r\n", true, "* PREAUTH"},
		{"it is full", IMAP, "* BYE too many connections\r\n", false, "* BYE"},
		{"another tag", IMAP, "* OK ready\r\na2 OK\r\n", false, "a2 OK"},
		{"no TLS", LDAP, "\x30\x0c\x02\x01\x01\x78\x07\x0a\x01\x02\x04\x00\x04\x00", true, "result code 2"},
		{"a length in four bytes", LDAP, "\x30\x84\x00\x00\x00\x0c\x02\x01\x01\x78\x07\x0a\x01\x35\x04\x00\x04\x00", true, "result code 53"},
		{"a server that is full", LDAP, "\x30\x0c\x02\x01\x01\x78\x07\x0a\x01\x33\x04\x00\x04\x00", false, "result code 51"},
		{"a notice of disconnection", LDAP, "\x30\x0c\x02\x01\x00\x78\x07\x0a\x01\x02\x04\x00\x04\x00", false, ""},
		{"another answer", LDAP, "\x30\x0c\x02\x01\x01\x61\x07\x0a\x01\x00\x04\x00\x04\x00", false, "\x61"},
		{"a length of no bytes", LDAP, "\x30\x80\x02\x01\x01", false, "\x80"},
		{"longer than anything", LDAP, "\x30\x84\x7f\xff\xff\xff\x02", false, "\x7f"},
		{"no number", LDAP, "\x30\x02\x78\x00", false, "\x78"},
		{"no code", LDAP, "\x30\x05\x02\x01\x01\x78\x00", false, "\x78"},
		{"HTTP", LDAP, "HTTP/1.1 400 Bad Request\r\n\r\n", false, "HTTP"},
		{"no TLS", XMPP, stream + "<stream:features><mechanisms/></stream:features>", true, "<mechanisms/>"},
		{"nothing at all", XMPP, stream + "<stream:features/>", true, "<stream:features/>"},
		{"another host", XMPP, stream + "<stream:error><host-unknown xmlns='urn:ietf:params:xml:ns:xmpp-streams'/></stream:error></stream:stream>", false, "host-unknown"},
		{"it ends the stream", XMPP, stream + "</stream:stream>", false, "<stream:stream"},
		{"TLS fails", XMPP, stream + features + "<failure xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>", true, "<failure"},
		{"another answer", XMPP, stream + features + "<iq/>", false, "<iq/>"},
		{"HTTP", XMPP, "HTTP/1.1 400 Bad Request\r\n\r\n", false, "HTTP"},
		{"no TLS", NATS, "INFO {\"port\":4222}\r\n", true, "INFO"},
		{"another line", NATS, "+OK\r\n", false, "+OK"},
		{"no JSON", NATS, "INFO {\r\n", false, "INFO {"},

		{"endless lines", SMTP, strings.Repeat("220-\r\n", 1<<16), false, "220-"},
		{"an endless line", SMTP, "220 " + strings.Repeat("x", 1<<20), false, "220 xxx"},
		{"endless lines", IMAP, "* OK\r\n" + strings.Repeat("* OK\r\n", 1<<16), false, "* OK"},
		{"an endless line", NATS, "INFO " + strings.Repeat(" ", 1<<20), false, "INFO"},
		{"endless features", XMPP, stream + "<stream:features>" + strings.Repeat("<a/>", 1<<16), false, "?xml"},
		{"endless garbage", Postgres, strings.Repeat("\x00", 1<<20), false, "\x00"},
	}
	for _, tt := range tests {
		t.Run(string(tt.p)+", "+tt.name, func(t *testing.T) {
			sent := strings.NewReader(tt.answers)
			err := tt.p.Begin(&script{answers: sent}, "web.shop.svc", greeting, end)
			assertAnswer(t, err, tt.p, tt.declined, tt.answer)
			assert.LessOrEqual(t, len(tt.answers)-sent.Len(), maxRead, "bytes read")
		})
	}
}

func assertAnswer(t *testing.T, err error, p Protocol, declined bool, answer string) {
	t.Helper()
	var its *Error
	require.ErrorAs(t, err, &its)
	assert.Equal(t, p, its.Protocol)
	assert.Equal(t, declined, its.Declined, "%v", err)
	assert.Contains(t, its.Answer, answer)
	assert.NotEmpty(t, its.Step)
	assert.LessOrEqual(t, len(its.Answer), maxAnswer)
}

// A TLS server answers other protocols with an alert. An error of the connection is returned as it is.
func TestBeginAtOthers(t *testing.T) {
	const alert = "\x15\x03\x01\x00\x02\x02\x46"
	for _, p := range []Protocol{Postgres, LDAP, XMPP} {
		assert.ErrorIs(t, p.Begin(&script{answers: strings.NewReader(alert)}, "x", greeting, end), ErrTLS, "%s", p)
	}
	reset := errors.New("reset")
	for _, name := range Protocols()[1:] {
		p := Protocol(name)
		for cut := range len(answers[p]) {
			conn := &script{answers: io.MultiReader(strings.NewReader(answers[p][:cut]), iotest.ErrReader(reset))}
			require.ErrorIs(t, p.Begin(conn, "x", greeting, end), reset, "%s: %q", p, answers[p][:cut])
		}
	}
}

// A server that speaks first has until the first of the two times.
func TestBeginInSilence(t *testing.T) {
	for _, p := range []Protocol{MySQL, SMTP, IMAP, NATS} {
		client, server := net.Pipe()
		now := time.Now()
		assert.ErrorIs(t, p.Begin(client, "x", now.Add(10*time.Millisecond), now.Add(time.Hour)), ErrSilent, "%s", p)
		require.NoError(t, server.Close())
	}
}

// A server that does not answer in time is not taken for a TLS server.
func TestBeginWithoutAnAnswer(t *testing.T) {
	client, server := net.Pipe()
	go func() { _, _ = io.Copy(io.Discard, server) }()
	now := time.Now()
	err := Postgres.Begin(client, "x", now.Add(time.Hour), now.Add(10*time.Millisecond))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	assert.NotErrorIs(t, err, ErrTLS)
	require.NoError(t, server.Close())
}

// A connection to MySQL ends with a login, whatever its result: see endMySQL.
func TestEnd(t *testing.T) {
	login := "\x33\x00\x00\x02\x00\x8a\x00\x00\x00\x00\x00\x01\x2d" + strings.Repeat("\x00", 23) + "servingcert-probe\x00\x00"
	const denied = "\x09\x00\x00\x03\xff\x15\x04#28000no"
	const another = "\x04\x00\x00\x03\xfecs\x00"
	for name, tt := range map[string]struct{ answers, said string }{
		"denied":                        {denied, login},
		"another authentication method": {another + "\x09\x00\x00\x05\xff\x15\x04#28000no", login + "\x00\x00\x00\x04"},
		"it closes":                     {"", login},
		"garbage":                       {strings.Repeat("\xff", 1<<20), login},
		"nothing in it":                 {"\x00\x00\x00\x03", login},
	} {
		t.Run(name, func(t *testing.T) {
			conn := &script{answers: strings.NewReader(tt.answers)}
			MySQL.End(conn)
			assert.Equal(t, tt.said, conn.said.String())
		})
	}
	for _, name := range Protocols() {
		if conn := (&script{answers: strings.NewReader(denied)}); Protocol(name) != MySQL {
			Protocol(name).End(conn)
			assert.Empty(t, conn.said.String(), "%s", name)
		}
	}
}

func TestOfPort(t *testing.T) {
	for name, want := range map[string]Protocol{
		"": "", "http": "", "https": "", "db": "", "postgres-exporter": "", "mysql-metrics": "", "x": "",
		"postgres": Postgres, "PostgreSQL": Postgres, "tcp-postgresql": Postgres, "mysql": MySQL, "example.com/mysql": MySQL, "mariadb": MySQL,
		"smtp": SMTP, "submission": SMTP, "imap": IMAP, "ldap": LDAP, "xmpp-client": XMPP, "xmpp-server": XMPPServer, "nats": NATS,
		"imaps": TLS, "ldaps": TLS, "smtps": TLS, "submissions": TLS, "tls": TLS,
	} {
		assert.Equal(t, want, OfPort(name), "%q", name)
	}
}

// Every answer has a bounded cost, and an error repeats little of it.
func FuzzBegin(f *testing.F) {
	for i, name := range Protocols() {
		f.Add(uint8(i), answers[Protocol(name)])
	}
	f.Fuzz(func(t *testing.T, which uint8, answers string) {
		p := Protocol(Protocols()[int(which)%len(dialects)])
		var err error
		sent := strings.NewReader(answers)
		require.NoError(t, bounded.Check(min(len(answers), maxRead), func() {
			sent = strings.NewReader(answers)
			err = p.Begin(&script{answers: iotest.OneByteReader(sent)}, "web.shop.svc", greeting, end)
			p.End(&script{answers: iotest.OneByteReader(strings.NewReader(answers))})
		}))
		assert.LessOrEqual(t, len(answers)-sent.Len(), maxRead)
		if its := (*Error)(nil); errors.As(err, &its) {
			assert.LessOrEqual(t, len(its.Error()), 100+4*maxAnswer)
		}
	})
}
