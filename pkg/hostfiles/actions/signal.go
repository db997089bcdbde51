package actions

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/servingcert/servingcert/pkg/hostfiles"
)

// signal sends a signal to the process whose id is in a file. A file that is older than the process is
// one of a process that is gone, and the id another's by now.
func signal(s *hostfiles.Signal) error {
	number := unix.SignalNum("SIG" + s.Signal)
	if number == 0 {
		return fmt.Errorf("signal %q: is not known", s.Signal)
	}
	pid, written, err := readPID(s.PIDFile)
	if err != nil {
		return err
	}
	// By its descriptor the process cannot become another one between the check and the signal.
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return fmt.Errorf("%s: there is no process %d: %w", s.PIDFile, pid, err)
	}
	defer unix.Close(fd)
	started, err := startOf(pid)
	if err != nil {
		return err
	}
	const slack = 2 * time.Second // the kernel says when it booted in whole seconds
	if started.After(written.Add(slack)) {
		return fmt.Errorf("%s: process %d started at %s, after the file was written: it is another process", s.PIDFile, pid, started.UTC().Format(time.RFC3339))
	}
	if err := unix.PidfdSendSignal(fd, number, nil, 0); err != nil {
		return fmt.Errorf("send SIG%s to process %d: %w", s.Signal, pid, err)
	}
	return nil
}

// readPID returns the id in a file, and when it was written.
func readPID(name string) (pid int, written time.Time, err error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return 0, written, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, written, err
	}
	data, err := io.ReadAll(io.LimitReader(f, 32))
	if err != nil {
		return 0, written, err
	}
	pid, err = strconv.Atoi(string(bytes.TrimSpace(data)))
	if err != nil || pid <= 1 || !info.Mode().IsRegular() {
		return 0, written, fmt.Errorf("%s: must be a file with the id of a process above 1", name)
	}
	return pid, info.ModTime(), nil
}

// ticks is how many there are in a second of /proc: USER_HZ, which is 100 on every platform of Go.
const ticks = 100

// startOf returns when a process started.
func startOf(pid int) (time.Time, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return time.Time{}, err
	}
	// The name of the program is in parentheses, and may have any characters.
	_, rest, _ := strings.Cut(string(stat[max(0, bytes.LastIndexByte(stat, ')')):]), " ")
	fields := strings.Fields(rest)
	const startField = 22 - 3 // proc_pid_stat(5) counts from 1, and two fields were cut
	if len(fields) <= startField {
		return time.Time{}, errors.New("/proc/PID/stat is too short")
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
	return time.Time{}, errors.New("/proc/stat does not say when the system booted")
}
