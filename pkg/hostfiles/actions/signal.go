package actions

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/servingcert/servingcert/pkg/hostfiles"
	"github.com/servingcert/servingcert/pkg/hostfiles/hostpath"
)

// signal sends a signal to the process whose id is in a file. If the process started after the file was written,
// the id was reused. Users other than root who can change the file must be the user of the process, who may signal
// it anyway. systemd requires the same of a PIDFile.
func signal(s *hostfiles.Signal) error {
	number := unix.SignalNum("SIG" + s.Signal)
	if number == 0 {
		return fmt.Errorf("signal %q: unknown", s.Signal)
	}
	pid, written, writers, err := readPID(s.PIDFile)
	if err != nil {
		return err
	}
	// With a descriptor, the id cannot be reused between the check and the signal.
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return fmt.Errorf("%s: process %d: %w", s.PIDFile, pid, err)
	}
	defer unix.Close(fd)
	started, err := startOf(pid)
	if err != nil {
		return err
	}
	const slack = 2 * time.Second // the boot time has a resolution of one second
	if started.After(written.Add(slack)) {
		return fmt.Errorf("%s: process %d started at %s, after the file was written: the id was reused", s.PIDFile, pid, started.UTC().Format(time.RFC3339))
	}
	if err := runsAs(pid, writers); err != nil {
		return fmt.Errorf("%s: %w", s.PIDFile, err)
	}
	if err := unix.PidfdSendSignal(fd, number, nil, 0); err != nil {
		return fmt.Errorf("send SIG%s to process %d: %w", s.Signal, pid, err)
	}
	return nil
}

// runsAs returns an error unless all users are the user of the process.
func runsAs(pid int, users []uint32) error {
	if len(users) == 0 {
		return nil
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(status)) {
		ids, ok := strings.CutPrefix(line, "Uid:") // real, effective, saved set, file system
		if !ok {
			continue
		}
		for _, user := range users {
			if slices.ContainsFunc(strings.Fields(ids), func(id string) bool { return id != strconv.FormatUint(uint64(user), 10) }) {
				return fmt.Errorf("user %d can write it, but process %d runs as another user: must belong to root or to the program's user", user, pid)
			}
		}
		return nil
	}
	return errors.New("/proc/PID/status has no line Uid")
}

// readPID returns the id in a file, its modification time, and the users other than root who can change it.
func readPID(name string) (pid int, written time.Time, writers []uint32, err error) {
	f, writers, err := hostpath.OpenFile(name)
	if err != nil {
		return 0, written, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, written, nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, 32))
	if err != nil {
		return 0, written, nil, err
	}
	pid, err = strconv.Atoi(string(bytes.TrimSpace(data)))
	if err != nil || pid <= 1 {
		return 0, written, nil, fmt.Errorf("%s: must contain a process id above 1", name)
	}
	return pid, info.ModTime(), writers, nil
}

// ticks is the number of clock ticks per second in /proc: USER_HZ, which is 100 on every platform of Go.
const ticks = 100

// Indexes of fields after the name of the program. proc_pid_stat(5) counts from 1, and the name is field 2.
const (
	parentField = 4 - 3
	startField  = 22 - 3
)

// statOf returns the fields of /proc/PID/stat after the name of the program, including startField.
func statOf(pid int) ([]string, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, err
	}
	// The name is in parentheses, and may contain any character.
	_, rest, _ := strings.Cut(string(stat[max(0, bytes.LastIndexByte(stat, ')')):]), " ")
	fields := strings.Fields(rest)
	if len(fields) <= startField {
		return nil, errors.New("/proc/PID/stat is too short")
	}
	return fields, nil
}

// startOf returns when a process started.
func startOf(pid int) (time.Time, error) {
	fields, err := statOf(pid)
	if err != nil {
		return time.Time{}, err
	}
	start, err := strconv.ParseInt(fields[startField], 10, 64)
	if err != nil {
		return time.Time{}, err
	}
	all, err := os.ReadFile("/proc/stat")
	if err != nil {
		return time.Time{}, err
	}
	for line := range strings.Lines(string(all)) {
		if text, ok := strings.CutPrefix(line, "btime "); ok {
			boot, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
			return time.Unix(boot, 0).Add(time.Duration(start) * time.Second / ticks), err
		}
	}
	return time.Time{}, errors.New("/proc/stat has no line btime")
}
