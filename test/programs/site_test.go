//go:build linux

package programs

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/hack/controlplane"
)

const (
	patience = 3 * time.Minute        // far longer than anything here takes on two busy cores
	tick     = 100 * time.Millisecond // between two looks
)

// site is where one program runs: an address of its own and a directory.
type site struct {
	root *root
	at   string // a loopback address
	dir  string // in the root directory
	log  string // a file on this machine
}

// sites counts those of this process, and third is the third number of their addresses: two
// processes seldom share one.
var (
	sites atomic.Uint32
	third = 1 + rand.IntN(254)
)

// newSite makes one, with the program's files.
func newSite(t *testing.T, r *root, p program) *site {
	t.Helper()
	n := sites.Add(1)
	s := &site{root: r, at: fmt.Sprintf("127.6.%d.%d", third, n), dir: fmt.Sprintf("%s/%s-%d", r.work, p.name, n), log: filepath.Join(t.TempDir(), "log")}
	require.NoError(t, os.Mkdir(s.host(""), 0o755))
	require.NoError(t, os.Chown(s.host(""), user, user))
	for name, content := range p.files {
		s.write(t, name, []byte(content))
	}
	if p.prepare != nil {
		p.prepare(t, s)
	}
	return s
}

// host returns the path of a file of the program's directory on this machine.
func (s *site) host(name string) string { return s.root.host(path.Join(s.dir, name)) }

// write writes a file for the program only.
func (s *site) write(t *testing.T, name string, content []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(s.host(name), content, 0o600))
	require.NoError(t, os.Chown(s.host(name), user, user))
}

// fill returns a text with the placeholders replaced.
func (s *site) fill(text string) string {
	return strings.NewReplacer("{at}", s.at, "{work}", s.dir).Replace(text)
}

// command returns a command that is run in the root directory as the user.
func (s *site) command(executable string, args, env []string) *exec.Cmd {
	cmd := exec.Command(executable, args...)
	cmd.Dir = s.dir
	cmd.Env = append([]string{"PATH=/usr/sbin:/usr/bin", "HOME=" + s.dir, "TMPDIR=" + s.dir, "LC_ALL=C.UTF-8", "PYTHONDONTWRITEBYTECODE=1"}, env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Chroot:     s.root.dir,
		Credential: &syscall.Credential{Uid: user, Gid: user},
		Setpgid:    true,
		Pdeathsig:  syscall.SIGKILL,
	}
	return cmd
}

// run runs a command to its end.
func (s *site) run(t *testing.T, executable string, args ...string) {
	t.Helper()
	runtime.LockOSThread() // Pdeathsig means the thread that forks
	defer runtime.UnlockOSThread()
	out, err := s.command(executable, args, nil).CombinedOutput()
	require.NoError(t, err, "%s %s\n%s", executable, strings.Join(args, " "), out)
}

// startEtcd runs etcd at the site's address until the test ends.
func (s *site) startEtcd(t *testing.T) {
	t.Helper()
	client, peer := "http://"+s.at+":2379", "http://"+s.at+":2380"
	etcd := s.start(t, s.root.install(t, kubernetes, controlplane.Etcd), []string{
		"--data-dir=" + s.dir + "/etcd", "--listen-client-urls=" + client, "--advertise-client-urls=" + client, "--listen-peer-urls=" + peer,
		"--initial-advertise-peer-urls=" + peer, "--initial-cluster=default=" + peer, "--unsafe-no-fsync=true", "--log-level=warn",
	}, nil)
	etcd.accepts(t, s.at+":2379")
}

// writeKubeconfig writes the file by which a program finds the cluster.
func writeKubeconfig(t *testing.T, s *site) {
	t.Helper()
	s.write(t, "kubeconfig", s.root.kubeconfig(t))
}

// process is one that runs, or has been stopped.
type process struct {
	cmd  *exec.Cmd
	log  string
	done chan struct{} // closed when it has ended and was waited for
}

// start runs an executable until the test ends.
func (s *site) start(t *testing.T, executable string, args, env []string) *process {
	t.Helper()
	log, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	defer log.Close() // the process has its own descriptor
	p := &process{cmd: s.command(executable, args, env), log: s.log, done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // Pdeathsig means the thread that forks
		defer runtime.UnlockOSThread()
		defer close(p.done)
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait() // how it ended is in ProcessState
		}
	}()
	require.NoError(t, <-started, "%s", executable)
	t.Cleanup(p.stop)
	return p
}

// stop ends the process and its children at once.
func (p *process) stop() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // fails only if all have ended
	<-p.done
}

// until looks until the look returns true, and ends the test if the process ends before.
func (p *process) until(t *testing.T, what string, look func() (ok bool, seen string)) {
	t.Helper()
	deadline := time.After(patience)
	for {
		ok, seen := look()
		if ok {
			return
		}
		select {
		case <-time.After(tick):
		case <-p.done:
			require.FailNow(t, "the program has ended", "before %s: %s\n%s\n%s", what, p.cmd.ProcessState, strings.Join(p.cmd.Args, " "), p.tail())
		case <-deadline:
			require.FailNow(t, "not in time", "%s; seen last: %s\n%s\n%s", what, seen, strings.Join(p.cmd.Args, " "), p.tail())
		}
	}
}

// accepts waits until the process accepts connections.
func (p *process) accepts(t *testing.T, address string) {
	t.Helper()
	p.until(t, "it listens at "+address, func() (bool, string) {
		conn, err := net.DialTimeout("tcp", address, dialTime)
		if err != nil {
			return false, err.Error()
		}
		return conn.Close() == nil, ""
	})
}

// tail returns the end of what the process has printed.
func (p *process) tail() string {
	data, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimSpace(data), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-15):], []byte("\n")))
}
