//go:build linux

package programs

import (
	"regexp"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"

	table "github.com/servingcert/servingcert/pkg/mutate/programs"
	"github.com/servingcert/servingcert/pkg/starttls"
)

// program is how a program of the table is run. In texts, {at} stands for the loopback
// address at which it listens, and {work} for its directory.
type program struct {
	name string // in the table
	// source says where its executable is from, and executable is its path or name there.
	source     source
	executable string
	// The container as its owner writes it: an image and arguments, or a command. The
	// entrypoint of an image is the executable.
	image         string
	command, args []string
	env           []corev1.EnvVar
	// port is the port that serves TLS with the certificate, and plain the one at which the
	// program listens without it, if that is another.
	port, plain int
	// once leaves out the run without what the entry gives.
	once bool
	// fsGroup gives the files to the group of the program's user.
	fsGroup bool
	// files are written into its directory before it starts, by name.
	files map[string]string
	// prepare makes what else it needs.
	prepare  func(t *testing.T, s *site)
	protocol starttls.Protocol // what comes before TLS on a connection
	// ask has it read the certificate again.
	ask func(t *testing.T, s *site)
}

// source is where an executable is from: Debian, hack/controlplane, or a module of this
// repository. Modules share no requirements.
type source string

const (
	debian     source = ""
	kubernetes source = "hack/controlplane"
	small      source = "test/programs/build/small"
	rbacProxy  source = "test/programs/build/kube-rbac-proxy"
	minio      source = "test/programs/build/minio"
)

// debianPackages are those of all programs, and what some of them need to be prepared.
var debianPackages = []string{
	"prometheus", "prometheus-alertmanager", "prometheus-bind-exporter", "prometheus-blackbox-exporter", "prometheus-haproxy-exporter",
	"prometheus-mysqld-exporter", "prometheus-node-exporter", "prometheus-postgres-exporter", "prometheus-process-exporter",
	"prometheus-pushgateway", "prometheus-redis-exporter", "prometheus-snmp-exporter",
	"coturn", "docker-registry", "mariadb-client-core", "mariadb-server-core", "nats-server", "postgresql-15", "redis-server",
	"gunicorn", "python3-hypercorn", "uvicorn", "websockify",
	"coreutils", "dash", "sed", "grep", // for initdb and mariadb-install-db
}

// plainPort returns the port at which the program listens without the certificate.
func (p *program) plainPort() int {
	if p.plain != 0 {
		return p.plain
	}
	return p.port
}

var signals = map[string]syscall.Signal{"SIGHUP": syscall.SIGHUP, "SIGUSR1": syscall.SIGUSR1, "SIGUSR2": syscall.SIGUSR2}

var signalName = regexp.MustCompile(`\bSIG[A-Z0-9]+\b`)

// signalOf returns the signal that the entry names, or nil.
func signalOf(entry *table.Program) *syscall.Signal {
	if s, ok := signals[signalName.FindString(entry.ReloadHow)]; ok {
		return &s
	}
	return nil
}
