package consumers

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
)

// servers is what a process of servers does: at the port of every address of loopback, the
// pair of the name that a client asks for.
type servers struct {
	Port  uint16
	Pairs map[string]pairPEM // by name
}

type pairPEM struct{ Cert, Key []byte }

// Serve serves what the file says until stdin ends; whenever a line comes it reads the file
// again, and answers with a line.
func Serve(ctx context.Context, file string) error {
	var pairs atomic.Pointer[map[string]*tls.Certificate]
	s, err := readServers(file, &pairs)
	if err != nil {
		return err
	}
	cfg := &tls.Config{GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		return (*pairs.Load())[hello.ServerName], nil
	}}
	// One socket for all addresses: as many pods as are wanted would take as many files.
	l, err := (&net.ListenConfig{Control: onLoopbackOnly}).Listen(ctx, "tcp4", ":"+strconv.Itoa(int(s.Port)))
	if err != nil {
		return err
	}
	defer l.Close()
	go accept(tls.NewListener(l, cfg))
	fmt.Println("ready")
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		if _, err := readServers(file, &pairs); err != nil {
			return err
		}
		fmt.Println("ready")
	}
	return lines.Err()
}

func readServers(file string, pairs *atomic.Pointer[map[string]*tls.Certificate]) (servers, error) {
	var s servers
	data, err := os.ReadFile(file)
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return s, err
	}
	loaded := make(map[string]*tls.Certificate, len(s.Pairs))
	for name, p := range s.Pairs {
		pair, err := tls.X509KeyPair(p.Cert, p.Key)
		if err != nil {
			return s, err
		}
		loaded[name] = &pair
	}
	pairs.Store(&loaded)
	return s, nil
}

func accept(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			_, _ = io.Copy(io.Discard, conn)
		}()
	}
}

// serverProcess runs Serve in a process of its own, so that what the servers
// use is not counted.
type serverProcess struct {
	cmd   *exec.Cmd
	file  string
	in    io.WriteCloser
	lines *bufio.Scanner
}

func startServers(ctx context.Context, dir string, s servers) (*serverProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &serverProcess{file: filepath.Join(dir, "servers.json")}
	if err := p.write(s); err != nil {
		return nil, err
	}
	p.cmd = exec.CommandContext(ctx, self, "--serve", p.file)
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.lines = bufio.NewScanner(out)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	return p, p.ready()
}

func (p *serverProcess) write(s servers) error {
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return os.WriteFile(p.file, data, 0o600)
}

func (p *serverProcess) ready() error {
	if !p.lines.Scan() {
		return errors.Join(errors.New("the servers ended"), p.lines.Err())
	}
	return nil
}

// reload has all of them serve what s says.
func (p *serverProcess) reload(s servers) error {
	if err := p.write(s); err != nil {
		return err
	}
	if _, err := io.WriteString(p.in, "reload\n"); err != nil {
		return err
	}
	return p.ready()
}

func (p *serverProcess) stop() error { return errors.Join(p.in.Close(), p.cmd.Wait()) }

// kill ends servers that were not stopped.
func (p *serverProcess) kill() {
	if p.cmd.ProcessState == nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	}
}
