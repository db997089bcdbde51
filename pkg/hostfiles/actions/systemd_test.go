package actions

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	godbus "github.com/godbus/dbus/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/hostfiles"
	"github.com/servingcert/servingcert/test/skip"
)

// manager is a stub of systemd on a real bus.
type manager struct {
	conn  *godbus.Conn
	calls chan string
	jobs  uint32
}

func (m *manager) ReloadUnit(unit, mode string) (godbus.ObjectPath, *godbus.Error) {
	return m.do("reload", unit, mode)
}

func (m *manager) RestartUnit(unit, mode string) (godbus.ObjectPath, *godbus.Error) {
	return m.do("restart", unit, mode)
}

func (m *manager) do(verb, unit, mode string) (godbus.ObjectPath, *godbus.Error) {
	m.calls <- verb + " " + unit + " " + mode
	if unit == "missing.service" {
		return "", godbus.NewError("org.freedesktop.systemd1.NoSuchUnit", []any{"Unit missing.service not found."})
	}
	m.jobs++
	job := func(n uint32) godbus.ObjectPath {
		return godbus.ObjectPath(fmt.Sprintf("/org/freedesktop/systemd1/job/%d", n))
	}
	const others = 1000 // the id of a foreign job, with another result
	removed := func(n uint32, unit, result string) {
		_ = m.conn.Emit("/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager.JobRemoved", n, job(n), unit, result)
	}
	removed(others, "other.service", "canceled")
	if result, ends := map[string]string{"web.service": "done", "failing.service": "failed"}[unit]; ends {
		removed(m.jobs, unit, result) // a job may end before the caller has its id
	}
	return job(m.jobs), nil
}

// startManager starts a bus with a manager. [Run] connects to it.
func startManager(t *testing.T) *manager {
	skip.WithoutPrograms(t, "dbus-daemon")
	dir := t.TempDir()
	config := filepath.Join(dir, "bus.conf")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, `<busconfig><type>system</type><listen>unix:path=%s/bus</listen><auth>EXTERNAL</auth>
<policy context="default"><allow own="*"/><allow send_destination="*"/><allow receive_sender="*"/></policy></busconfig>`, dir), 0o600))
	cmd := exec.Command("dbus-daemon", "--config-file="+config, "--print-address", "--nofork", "--nopidfile")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
	address, err := bufio.NewReader(out).ReadString('\n') // once it listens
	require.NoError(t, err)
	t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", strings.TrimSpace(address))
	conn, err := godbus.ConnectSystemBus()
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	m := &manager{conn: conn, calls: make(chan string, 100)}
	require.NoError(t, conn.Export(m, "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager"))
	reply, err := conn.RequestName("org.freedesktop.systemd1", godbus.NameFlagDoNotQueue)
	require.NoError(t, err)
	require.Equal(t, godbus.RequestNameReplyPrimaryOwner, reply)
	return m
}

func unit(name, verb string, timeout time.Duration) *hostfiles.Store {
	return store(hostfiles.Action{Systemd: &hostfiles.Systemd{Unit: name, Verb: verb}}, timeout)
}

func TestSystemd(t *testing.T) {
	m := startManager(t)
	for _, c := range []struct{ unit, verb, want string }{
		{"web.service", "reload", ""},
		{"web.service", "restart", ""},
		{"missing.service", "reload", `reload unit "missing.service": Unit missing.service not found.`},
		{"failing.service", "restart", `restart unit "failing.service": the job ended as "failed"`},
	} {
		err := Run(t.Context(), unit(c.unit, c.verb, time.Minute), "a")
		if c.want == "" {
			require.NoError(t, err)
		} else {
			require.EqualError(t, err, c.want)
		}
		require.Equal(t, c.verb+" "+c.unit+" replace", <-m.calls)
	}
	err := Run(t.Context(), unit("endless.service", "reload", 5*time.Second), "a")
	require.EqualError(t, err, `timed out after 5s: reload unit "endless.service": context deadline exceeded`)
	<-m.calls
	assert.Empty(t, m.calls, "each job is requested once")
}

func TestSystemdWithoutABus(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "bus")
	t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path="+socket)
	require.ErrorContains(t, Run(t.Context(), unit("web.service", "reload", time.Minute), "a"), "connect to D-Bus: dial unix "+socket+": connect: no such file or directory")
	// A socket that accepts connections, and sends nothing.
	l, err := net.Listen("unix", socket)
	require.NoError(t, err)
	defer l.Close()
	require.ErrorContains(t, Run(t.Context(), unit("web.service", "reload", 100*time.Millisecond), "a"), "timed out after 100ms: connect to D-Bus: ")
}
