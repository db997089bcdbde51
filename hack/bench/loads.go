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
	"sync"
	"time"

	"github.com/servingcert/servingcert/hack/process"
)

const (
	newClients  = 8
	keptClients = 50
	pacedRate   = 2000
	idleClients = 9900
	downloadMiB = 1024
	loadTime    = 3 * time.Second // of each load
)

// measure starts a proxy twice: once to measure memory, once for the rest.
func (p *proxies) measure(w way) (f figures, err error) {
	f = figures{}
	defer func() { p.stop(1) }()
	dial := func() (net.Conn, error) { return net.Dial("tcp", "127.0.0.1:"+w.port) }
	pid := p.started[0].PID()
	if w.name != direct {
		dial = func() (net.Conn, error) { return dialTLS(w.port) }
		if pid, err = p.start(w.port, w.command); err != nil {
			return f, err
		}
		if err := p.memory(f, dial, pid); err != nil {
			return f, err
		}
		p.stop(1)
		if w.name == p.ways()[0].name {
			if err := p.memoryInAPod(f); err != nil {
				return f, err
			}
		}
		if pid, err = p.start(w.port, w.command); err != nil {
			return f, err
		}
	}
	times, cpu, err := p.load(newClients, pid, func() (func() error, io.Closer) {
		return func() error {
			c, err := dial()
			if err != nil {
				return err
			}
			defer c.Close()
			return get(c, bufio.NewReader(c), 0)
		}, io.NopCloser(nil)
	})
	if err != nil {
		return f, fmt.Errorf("new connections: %w", err)
	}
	f[newRate], f[newCPU] = float64(len(times))/loadTime.Seconds(), cpu/float64(len(times))
	if err := p.requests(f, dial, pid); err != nil {
		return f, fmt.Errorf("requests: %w", err)
	}
	c, err := dial()
	if err != nil {
		return f, err
	}
	defer c.Close()
	before, begun := process.FamilyCPU(pid), time.Now()
	if err := get(c, bufio.NewReaderSize(c, 64<<10), downloadMiB); err != nil {
		return f, fmt.Errorf("download: %w", err)
	}
	f[download] = downloadMiB * (1 << 20) / 1e6 / time.Since(begun).Seconds()
	f[downloadCPU] = (process.FamilyCPU(pid) - before).Seconds() / (downloadMiB * (1 << 20) / 1e9)
	return f, nil
}

// requests measures kept connections, at the highest possible rate and at a fixed one.
func (p *proxies) requests(f figures, dial func() (net.Conn, error), pid int) error {
	kept := func() (func() error, io.Closer) {
		c, err := dial()
		if err != nil {
			return func() error { return err }, io.NopCloser(nil)
		}
		r := bufio.NewReader(c)
		return func() error { return get(c, r, 0) }, c
	}
	times, cpu, err := p.load(keptClients, pid, kept)
	if err != nil {
		return err
	}
	f[rate], f[requestCPU] = float64(len(times))/loadTime.Seconds(), cpu/float64(len(times))
	f[p50], f[p99] = process.Quantile(times, .5), process.Quantile(times, .99)
	const pause = keptClients * time.Second / pacedRate
	var lock sync.Mutex
	var paced []float64 // µs since each request was due
	_, _, err = p.load(keptClients, pid, func() (func() error, io.Closer) {
		request, conn := kept()
		var due time.Time
		return func() error {
			if due.IsZero() { // all clients are connected
				due = time.Now().Add(rand.N(pause))
			}
			time.Sleep(time.Until(due))
			err := request()
			lock.Lock()
			defer lock.Unlock()
			paced, due = append(paced, float64(time.Since(due).Microseconds())), due.Add(pause)
			return err
		}, conn
	})
	f[paced99] = process.Quantile(paced, .99)
	return err
}

// memory opens idle connections, each of which has made one request.
func (p *proxies) memory(f figures, dial func() (net.Conn, error), pid int) error {
	f[atRest] = process.FamilyRSS(pid) / 1e6
	for n := range idleClients {
		c, err := dial()
		if err == nil {
			defer c.Close() //nolint:gocritic // all stay open until the end
			err = get(c, bufio.NewReaderSize(c, 256), 0)
		}
		if err != nil {
			return fmt.Errorf("connection %d: %w", n, err)
		}
	}
	f[allIdle] = process.FamilyRSS(pid) / 1e6
	return nil
}

// memoryInAPod starts the proxy with all that a pod may need of it. The last of its listeners opens after the first.
func (p *proxies) memoryInAPod(f figures) error {
	for row, services := range map[string]int{connects: 1, connects50: 50} {
		pid, err := p.start(inAPodPort, p.inAPod(services))
		if err != nil {
			return err
		}
		time.Sleep(5 * time.Second)
		f[row] = process.FamilyRSS(pid) / 1e6
		p.stop(1)
	}
	return nil
}

// load makes clients repeat an operation for the duration. It returns the time of each operation, and
// the CPU time of the process for all of them, in microseconds.
func (p *proxies) load(clients, pid int, client func() (do func() error, closer io.Closer)) (times []float64, cpu float64, err error) {
	var running sync.WaitGroup
	var mu sync.Mutex
	begin := make(chan struct{})
	var end time.Time
	for range clients {
		do, closer := client()
		running.Go(func() {
			defer closer.Close()
			<-begin
			var own []float64
			var failed error
			for failed == nil && time.Now().Before(end) {
				start := time.Now()
				failed = do()
				own = append(own, float64(time.Since(start).Nanoseconds())/1000)
			}
			mu.Lock()
			defer mu.Unlock()
			times, err = append(times, own...), errors.Join(err, failed)
		})
	}
	before := process.FamilyCPU(pid)
	end = time.Now().Add(loadTime)
	close(begin)
	running.Wait()
	return times, float64((process.FamilyCPU(pid) - before).Microseconds()), err
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
