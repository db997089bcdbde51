package main

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/servingcert/servingcert/hack/measure"
	"github.com/servingcert/servingcert/hack/process"
)

const (
	newClients  = 8
	keptClients = 50
	pacedRate   = 2000
	downloadMiB = 1024
	fewIdle     = 1000
)

// measure starts a proxy twice, fresh: once for memory, once for the rest.
func (b *bench) measure(w way) (f figures, err error) {
	defer func() { b.stop(1) }()
	dial := func() (net.Conn, error) { return net.Dial("tcp", "127.0.0.1:"+w.port) }
	pid := b.started[0].PID()
	if w.name != direct {
		dial = func() (net.Conn, error) { return dialTLS(w.port) }
		if pid, err = b.start(w.port, w.command); err != nil {
			return f, err
		}
		if err := b.memory(&f, dial, pid); err != nil {
			return f, err
		}
		b.stop(1)
		if pid, err = b.start(w.port, w.command); err != nil {
			return f, err
		}
	}
	n, _, cpu, err := b.load(newClients, pid, func() (func() error, func()) {
		return func() error {
			c, err := dial()
			if err != nil {
				return err
			}
			defer c.Close()
			return get(c, bufio.NewReader(c), 0)
		}, func() {}
	})
	if err != nil {
		return f, fmt.Errorf("new connections: %w", err)
	}
	f.newRate, f.newCPU = n/b.duration.Seconds(), cpu/n
	if err := b.requests(&f, dial, pid); err != nil {
		return f, fmt.Errorf("requests: %w", err)
	}
	c, err := dial()
	if err != nil {
		return f, err
	}
	defer c.Close()
	before, begun := cpuTime(pid), time.Now()
	if err := get(c, bufio.NewReaderSize(c, 64<<10), downloadMiB); err != nil {
		return f, fmt.Errorf("download: %w", err)
	}
	f.download = downloadMiB * (1 << 20) / 1e6 / time.Since(begun).Seconds()
	f.downloadCPU = (cpuTime(pid) - before).Seconds() / (downloadMiB * (1 << 20) / 1e9)
	return f, nil
}

// requests measures connections that are kept: as many requests as there can be, and a paced load.
func (b *bench) requests(f *figures, dial func() (net.Conn, error), pid int) error {
	kept := func() (func() error, func()) {
		c, err := dial()
		if err != nil {
			return func() error { return err }, func() {}
		}
		r := bufio.NewReader(c)
		return func() error { return get(c, r, 0) }, func() { _ = c.Close() }
	}
	n, times, cpu, err := b.load(keptClients, pid, kept)
	if err != nil {
		return err
	}
	f.rate, f.cpu, f.p50, f.p99 = n/b.duration.Seconds(), cpu/n, measure.Quantile(times, .5), measure.Quantile(times, .99)
	const pause = keptClients * time.Second / pacedRate
	var lock sync.Mutex
	var paced []float64 // µs from when each request was due
	_, _, _, err = b.load(keptClients, pid, func() (func() error, func()) {
		request, closed := kept()
		var due time.Time
		return func() error {
			if due.IsZero() { // all have connected
				due = time.Now().Add(rand.N(pause))
			}
			time.Sleep(time.Until(due))
			err := request()
			lock.Lock()
			defer lock.Unlock()
			paced, due = append(paced, float64(time.Since(due).Microseconds())), due.Add(pause)
			return err
		}, closed
	})
	f.paced99 = measure.Quantile(paced, .99)
	return err
}

// memory opens idle connections, each of which has made one request.
func (b *bench) memory(f *figures, dial func() (net.Conn, error), pid int) error {
	f.rest = rss(pid)
	var conns []net.Conn
	defer func() {
		for _, c := range conns {
			_ = c.Close()
		}
	}()
	for len(conns) < b.idle {
		c, err := dial()
		if err != nil {
			return fmt.Errorf("connection %d: %w", len(conns), err)
		}
		conns = append(conns, c)
		if err := get(c, bufio.NewReaderSize(c, 256), 0); err != nil {
			return fmt.Errorf("connection %d: %w", len(conns), err)
		}
		if len(conns) == fewIdle {
			f.thousand = rss(pid)
		}
	}
	f.idleConn = rss(pid)
	return nil
}

// load has clients repeat something for the duration. It returns how often they did, how long each
// took, and the CPU time of the process, in microseconds.
func (b *bench) load(clients, pid int, client func() (do func() error, closed func())) (n float64, times []float64, cpu float64, err error) {
	var group sync.WaitGroup
	var mu sync.Mutex
	var stop atomic.Bool
	var errs []error
	begin := make(chan struct{})
	for range clients {
		do, closed := client()
		group.Go(func() {
			defer closed()
			<-begin
			var own []float64
			for !stop.Load() {
				start := time.Now()
				if err := do(); err != nil {
					mu.Lock()
					errs = append(errs, err)
					mu.Unlock()
					return
				}
				own = append(own, float64(time.Since(start).Nanoseconds())/1000)
			}
			mu.Lock()
			times = append(times, own...)
			mu.Unlock()
		})
	}
	before := cpuTime(pid)
	close(begin)
	time.Sleep(b.duration)
	stop.Store(true)
	group.Wait()
	cpu = float64((cpuTime(pid) - before).Microseconds())
	return float64(len(times)), times, cpu, errors.Join(errs...)
}

// dialTLS makes a full handshake of TLS 1.3 with X25519.
func dialTLS(port string) (net.Conn, error) {
	return tls.Dial("tcp", "127.0.0.1:"+port, &tls.Config{
		InsecureSkipVerify: true, MinVersion: tls.VersionTLS13, CurvePreferences: []tls.CurveID{tls.X25519}, //nolint:gosec // its own certificate, on loopback
	})
}

func get(c net.Conn, r *bufio.Reader, mib int) error {
	if _, err := fmt.Fprintf(c, "GET /%d HTTP/1.1\r\nHost: web\r\n\r\n", mib); err != nil {
		return err
	}
	response, err := http.ReadResponse(r, nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return err
}

// processes are a process and its children, of which nginx has some.
func processes(pid int) []int {
	all := []int{pid}
	children, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, file := range children {
		b, _ := os.ReadFile(file)
		for field := range strings.FieldsSeq(string(b)) {
			child, _ := strconv.Atoi(field)
			all = append(all, child)
		}
	}
	return all
}

func cpuTime(pid int) (sum time.Duration) {
	for _, each := range processes(pid) {
		own, _ := process.CPUTime(each) // 0 of one that has ended
		sum += own
	}
	return sum
}

// rss is resident memory in MB; of several processes, all of the first and what the others have of their own.
func rss(pid int) (sum float64) {
	for i, each := range processes(pid) {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", each))
		key := "VmRSS:"
		if i > 0 {
			key = "RssAnon:"
		}
		for line := range strings.Lines(string(b)) {
			if fields := strings.Fields(line); len(fields) > 1 && fields[0] == key {
				kib, _ := strconv.ParseFloat(fields[1], 64)
				sum += kib * 1024 / 1e6
			}
		}
	}
	return sum
}
