// Command proxybench measures cmd/proxy beside nginx (stream), haproxy (tcp) and ghostunnel, each in
// front of the same small HTTP server, all on loopback, and prints the table of docs/benchmarks.md.
//
// Each round measures all in another order; a ratio is that of one round. Debian has nginx,
// libnginx-mod-stream and haproxy; ghostunnel is a Go program. What is not installed is left out.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/servingcert/servingcert/hack/process"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) > 2 && os.Args[1] == "origin" {
		log.Fatal(origin(os.Args[2]))
	}
	b := &bench{}
	rounds := flag.Int("rounds", 5, "how often each proxy is measured")
	flag.DurationVar(&b.duration, "duration", 3*time.Second, "how long each load runs")
	flag.IntVar(&b.idle, "idle", 9900, "idle connections")
	ghostunnel := flag.String("ghostunnel", "ghostunnel", "program of ghostunnel")
	only := flag.String("only", "", "proxies to measure, comma-separated (default: all)")
	flag.Parse()
	dir, err := os.MkdirTemp("", "proxybench-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	b.dir = dir
	if err := b.run(*rounds, *ghostunnel, *only); err != nil {
		log.Print(err)
	}
}

type bench struct {
	dir      string
	duration time.Duration
	idle     int
	started  []*process.Program // the origin, and what is measured
}

// direct is what the proxies are measured against: none.
const direct = "direct"

func (b *bench) run(rounds int, ghostunnel, only string) error {
	defer b.stop(0)
	if err := b.writeFiles(); err != nil {
		return err
	}
	if err := errors.Join(os.Setenv("CGO_ENABLED", "0"), process.Build(context.Background(), b.dir, nil, "cmd/proxy")); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if _, err := b.start(originPort, []string{self, "origin", "127.0.0.1:" + originPort}); err != nil {
		return err
	}
	var ways []way
	var names []string
	for _, w := range append(b.ways(ghostunnel), way{direct, originPort, []string{self}}) {
		if only != "" && w.name != direct && !slices.Contains(strings.Split(only, ","), w.name) {
			continue
		}
		if _, err := exec.LookPath(w.command[0]); err != nil {
			fmt.Fprintf(os.Stderr, "left out: %s: %v\n", w.name, err)
			continue
		}
		ways, names = append(ways, w), append(names, w.name)
	}
	results := map[string][]figures{}
	for round := range rounds {
		for _, i := range rand.Perm(len(ways)) {
			fmt.Fprintf(os.Stderr, "round %d: %s\n", round+1, names[i])
			f, err := b.measure(ways[i])
			if err != nil {
				return fmt.Errorf("%s: %w", names[i], err)
			}
			results[names[i]] = append(results[names[i]], f)
		}
	}
	report(os.Stdout, names, results)
	return nil
}

// start starts a program, waits until its port accepts, and returns its process.
func (b *bench) start(port string, command []string) (int, error) {
	p := &process.Program{Path: command[0], Args: command[1:], Dir: b.dir, Once: true, NoHealth: true}
	if err := p.Run(); err != nil {
		return 0, err
	}
	b.started = append(b.started, p)
	for range 500 {
		if c, err := net.Dial("tcp", "127.0.0.1:"+port); err == nil {
			return p.PID(), c.Close()
		}
		time.Sleep(20 * time.Millisecond)
	}
	return 0, fmt.Errorf("%s does not listen on %s:\n%s", command[0], port, p.Log.String())
}

// stop stops all but the first n programs.
func (b *bench) stop(n int) {
	for len(b.started) > n {
		last := b.started[len(b.started)-1]
		b.started = b.started[:len(b.started)-1]
		_ = last.Stop() // nginx ends its workers
	}
}
