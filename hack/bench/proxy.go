package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"time"

	"github.com/servingcert/servingcert/hack/installed"
	"github.com/servingcert/servingcert/hack/process"
)

// proxies compares cmd/proxy with nginx (stream), haproxy (tcp) and ghostunnel, each in front of the
// same small HTTP server, all on loopback. Each round measures all of them in random order, and ratios
// are computed per round. Debian has nginx, libnginx-mod-stream and haproxy; ghostunnel is a Go program.
type proxies struct {
	dir     string
	started []*process.Program // the HTTP server and the measured proxy
}

// direct stands for connections without a proxy.
const direct = "direct"

// figures are the results of one proxy in one round, by row.
type figures map[string]float64

const (
	newRate, newCPU       = "new connections/s, each with a request", "CPU µs a new connection"
	rate, requestCPU      = "requests/s, 50 connections", "CPU µs a request"
	p50, p99, paced99     = "p50 µs", "p99 µs", "p99 µs at 2000 requests/s"
	download, downloadCPU = "download of 1 GiB, MB/s", "CPU s a GB"
	atRest, allIdle       = "RSS at rest, MB", "RSS with all idle connections, MB"
	connects, connects50  = "RSS at rest, also connecting to a Service, MB", "RSS at rest, also connecting to 50 Services, MB"
)

var proxyRows = []struct{ name, format, budget string }{
	{newRate, "%.0f", "≥ 0.9 of nginx"}, {newCPU, "%.0f", ""},
	{rate, "%.0f", "≥ 0.75 of nginx"}, {requestCPU, "%.1f", "≤ 1.3 × nginx"}, {p50, "%.0f", ""}, {p99, "%.0f", ""},
	{paced99, "%.0f", "< 1000 more than direct"},
	{download, "%.0f", "≥ 0.9 of nginx"}, {downloadCPU, "%.2f", ""},
	{atRest, "%.1f", "≤ 8"}, {connects, "%.1f", "≤ 10"}, {connects50, "%.1f", ""}, {allIdle, "%.0f", "≤ 1.3 × haproxy"},
}

// run measures the installed proxies.
func (p *proxies) run(ctx context.Context, rounds int) (err error) {
	if p.dir, err = os.MkdirTemp("", "servingcert-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(p.dir)
	defer p.stop(0)
	if err := errors.Join(p.writeFiles(), process.Build(ctx, p.dir, nil, "cmd/proxy")); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if _, err := p.start(originPort, []string{self, "origin", "127.0.0.1:" + originPort}); err != nil {
		return err
	}
	var ways []way
	for _, w := range append(p.ways(), way{direct, originPort, []string{self}}) {
		_, err := exec.LookPath(w.command[0])
		if err == nil && w.name == "nginx" {
			_, err = os.Stat(nginxModule)
		}
		if err != nil {
			process.Step("left out: %s: %v", w.name, err)
			continue
		}
		ways = append(ways, w)
	}
	results := map[string][]figures{}
	for round := range rounds {
		for _, i := range rand.Perm(len(ways)) {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			process.Step("round %d: %s", round+1, ways[i].name)
			f, err := p.measure(ways[i])
			if err != nil {
				return fmt.Errorf("%s: %w", ways[i].name, err)
			}
			results[ways[i].name] = append(results[ways[i].name], f)
		}
	}
	installed.Table(os.Stdout, proxyTable(ways, results))
	return nil
}

// proxyTable returns medians, and below them the ratios of our proxy to the other one in the same
// round: median, minimum and maximum.
func proxyTable(ways []way, results map[string][]figures) [][]string {
	head := []string{""}
	for _, w := range ways {
		head = append(head, w.name)
	}
	table := [][]string{append(head, "budget")}
	ours := results[ways[0].name]
	for _, r := range proxyRows {
		row, of := []string{r.name}, func(f figures) float64 { return f[r.name] }
		for i, w := range ways {
			cell := fmt.Sprintf(r.format, process.Of(results[w.name], of).Median())
			var ratios process.Spread
			for round, theirs := range results[w.name] {
				if i > 0 && of(theirs) > 0 && of(ours[round]) > 0 {
					ratios = append(ratios, of(ours[round])/of(theirs))
				}
			}
			if len(ratios) > 0 {
				cell += "<br>" + ratios.Format("%.2f")
			}
			row = append(row, cell)
		}
		table = append(table, append(row, r.budget))
	}
	return table
}

// start starts a program, waits until it accepts connections at a port of loopback, and returns its process ID.
func (p *proxies) start(port string, command []string) (int, error) {
	program := &process.Program{Path: command[0], Args: command[1:], Dir: p.dir, Once: true, NoHealth: true}
	if err := program.Run(); err != nil {
		return 0, err
	}
	p.started = append(p.started, program)
	for range 500 {
		if c, err := net.Dial("tcp", "127.0.0.1:"+port); err == nil {
			return program.PID(), c.Close()
		}
		time.Sleep(shortPoll)
	}
	return 0, fmt.Errorf("%s does not listen on port %s:\n%s", command[0], port, program.Log.String())
}

// stop stops all but the first n programs.
func (p *proxies) stop(n int) {
	for len(p.started) > n {
		last := p.started[len(p.started)-1]
		p.started = p.started[:len(p.started)-1]
		_ = last.Stop() // nginx ends its workers
	}
}
