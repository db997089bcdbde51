//go:build linux && programs

package programs

import (
	"crypto"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
	"github.com/servingcert/servingcert/pkg/rotator/probe/dial"
	"github.com/servingcert/servingcert/pkg/starttls"
	"github.com/servingcert/servingcert/test/rotatortest"
)

// talker is a server of Debian's that clients ask for TLS in its own protocol. A configuration
// file says which certificate it has: no flag or variable does. In the file, {tls} stands for the
// lines tls, or plain if it is not to serve TLS.
type talker struct {
	program
	file, config, tls, plain string
	ports                    map[int]starttls.Protocol
}

// talkerPackages are those of talkers. PostgreSQL, MariaDB and NATS are in TestPrograms.
var talkerPackages = []string{"coreutils", "dash", "dovecot-imapd", "exim4-daemon-light", "prosody", "slapd"}

var talkers = []talker{
	{
		program: program{name: "slapd", executable: "/usr/sbin/slapd", args: []string{"-h", "ldap://{at}:3389/", "-f", "{work}/slapd.conf", "-d", "0"}},
		file:    "slapd.conf", config: "include /etc/ldap/schema/core.schema\npidfile {work}/pid\n{tls}",
		tls:   "TLSCertificateFile {work}/tls.crt\nTLSCertificateKeyFile {work}/tls.key\n",
		ports: map[int]starttls.Protocol{3389: starttls.LDAP},
	},
	{
		program: program{name: "dovecot", executable: "/usr/sbin/dovecot", args: []string{"-F", "-c", "{work}/dovecot.conf"}},
		file:    "dovecot.conf", config: `protocols = imap
listen = {at}
base_dir = {work}/run
state_dir = {work}/run
log_path = {work}/dovecot.log
default_internal_user = nonroot
default_internal_group = nonroot
default_login_user = nonroot
service anvil {
  chroot =
}
service stats {
  chroot =
}
service imap-login {
  chroot =
  inet_listener imap {
    port = 3143
  }
  inet_listener imaps {
    port = 0
  }
}
passdb {
  driver = static
  args = nopassword=y
}
{tls}`,
		plain: "ssl = no\n",
		tls:   "ssl = yes\nssl_cert = <{work}/tls.crt\nssl_key = <{work}/tls.key\n",
		ports: map[int]starttls.Protocol{3143: starttls.IMAP},
	},
	{
		program: program{name: "prosody", executable: "/usr/bin/lua5.4", args: []string{"/usr/bin/prosody", "-F", "--config", "{work}/prosody.cfg.lua"}},
		file:    "prosody.cfg.lua", config: `pidfile = "{work}/pid"
data_path = "{work}/data"
interfaces = { "{at}" }
log = { warn = "{work}/prosody.log" }
{tls}
VirtualHost "web.shop.svc"
`,
		plain: `modules_disabled = { "tls" }`,
		tls:   `modules_enabled = { "tls" } ssl = { certificate = "{work}/tls.crt", key = "{work}/tls.key" }`,
		ports: map[int]starttls.Protocol{5222: starttls.XMPP, 5269: starttls.XMPPServer},
	},
	{
		program: program{name: "exim", executable: "/usr/sbin/exim4", args: []string{"-bdf", "-C", "{work}/exim.conf", "-oX", "3025"}},
		file:    "exim.conf", config: `primary_hostname = web.shop.svc
spool_directory = {work}
log_file_path = {work}/exim-%slog
pid_file_path = {work}/pid
local_interfaces = <, {at}
keep_environment =
host_lookup =
rfc1413_query_timeout = 0s
{tls}`,
		plain: "tls_advertise_hosts =\n",
		tls:   "tls_advertise_hosts = *\ntls_certificate = {work}/tls.crt\ntls_privatekey = {work}/tls.key\n",
		ports: map[int]starttls.Protocol{3025: starttls.SMTP},
	},
}

// TestStartTLS: what was plaintext for a dial that begins with TLS shows its certificate to one
// that knows the protocol.
func TestStartTLS(t *testing.T) {
	r := newRoot(t, talkerPackages...)
	// exim runs as this user or as root.
	for file, line := range map[string]string{"/etc/passwd": "Debian-exim:x:%[1]d:%[1]d::/tmp:/usr/sbin/nologin\n", "/etc/group": "Debian-exim:x:%d:\n"} {
		was, err := os.ReadFile(r.host(file))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(r.host(file), append(was, fmt.Sprintf(line, user)...), 0o644))
		t.Cleanup(func() { require.NoError(t, os.WriteFile(r.host(file), was, 0o644)) })
	}
	ca := rotatortest.NewCA(t, 1, time.Now())
	t.Run("each", func(t *testing.T) {
		lists.Add(1)
		for _, talks := range talkers {
			t.Run(talks.name, func(t *testing.T) {
				listed.Add(1)
				t.Parallel()
				talks.play(t, r, ca)
			})
		}
	})
}

func (p talker) play(t *testing.T, r *root, ca rotatortest.CA) {
	pair := ca.Issue(t, time.Now(), serverName)
	key, err := pki.EncodeKey(pair.PrivateKey.(crypto.Signer))
	require.NoError(t, err)
	start := func(tls string) (*site, *process) {
		s := newSite(t, r, p.program)
		s.write(t, corev1.TLSCertKey, pki.EncodeCertificates(pair.Leaf))
		s.write(t, corev1.TLSPrivateKeyKey, key)
		file := s.host(p.file)
		require.NoError(t, os.WriteFile(file, []byte(s.fill(strings.ReplaceAll(p.config, "{tls}", tls))), 0o644)) // exim wants it to be root's
		var args []string
		for _, arg := range p.args {
			args = append(args, s.fill(arg))
		}
		running := s.start(t, p.executable, args, nil)
		for port := range p.ports {
			running.accepts(t, fmt.Sprintf("%s:%d", s.at, port))
		}
		return s, running
	}
	s, running := start(p.tls)
	for port, protocol := range p.ports {
		address := fmt.Sprintf("%s:%d", s.at, port)
		begun := time.Now()
		leaf, instead := handshakeWithin(t, patience, address, protocol, ca.Root)
		require.Equal(t, pki.Fingerprint(pair.Leaf), leaf, "%s: %s\n%s", protocol, instead, running.tail())
		took := time.Since(begun)
		before := dial.Dial(t.Context(), address, serverName, starttls.TLS, time.Second)
		assert.NotEqual(t, probe.TLS, before.Kind)
		t.Logf("%s: TLS after %s; a dial that begins with TLS: %s", protocol, took.Round(time.Millisecond), before.Label())
	}
	running.stop()
	s, running = start(p.plain)
	for port, protocol := range p.ports {
		outcome := dial.Dial(t.Context(), fmt.Sprintf("%s:%d", s.at, port), serverName, protocol, patience)
		want := probe.CauseDeclined
		if p.name == "prosody" { // which has nothing else to offer then, and says an error
			want = probe.CauseProtocol
		}
		assert.Equal(t, want, outcome.Cause, "%s: %v\n%s", protocol, outcome.Err, running.tail())
		t.Logf("%s without TLS: %v", protocol, outcome.Err)
	}
}
