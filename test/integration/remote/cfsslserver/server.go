package cfsslserver

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// startTimeout bounds how long a server may take to answer; it takes a fraction
// of a second on an idle machine.
const startTimeout = 60 * time.Second

// Server is one that runs, or has been stopped.
type Server struct {
	URL string

	kind Kind
	site *Site
	dir  string
	port string
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended and was waited for
}

// Use has the server sign with another CA from now on.
func (s *Server) Use(ca *CA) error {
	s.Stop()
	if err := writePair(filepath.Join(s.dir, "ca.pem"), filepath.Join(s.dir, "ca-key.pem"), ca.Certificate, ca.Key); err != nil {
		return err
	}
	return s.Start()
}

// Configure changes serving.json, as documented, from now on.
func (s *Server) Configure(change func(profiles string) string) error {
	s.Stop()
	profiles := change(inDir(s.site.documented.profiles, s.dir))
	if err := os.WriteFile(s.profilesFile(), []byte(profiles), 0o600); err != nil {
		return err
	}
	return s.Start()
}

func (s *Server) profilesFile() string { return filepath.Join(s.dir, "serving.json") }

// Start runs a server that was stopped, at its address, and returns when it
// answers.
func (s *Server) Start() error {
	if _, err := os.Stat(s.profilesFile()); errors.Is(err, os.ErrNotExist) {
		if err := os.WriteFile(s.profilesFile(), []byte(inDir(s.site.documented.profiles, s.dir)), 0o600); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(s.dir, "roots.conf"), []byte(inDir(s.site.documented.roots, s.dir)), 0o600); err != nil {
		return err
	}
	if err := s.exec(); err != nil {
		return fmt.Errorf("run %s: %w", s.kind, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	client, err := s.client()
	if err != nil {
		return err
	}
	for {
		notReady := ask(ctx, client, s.URL+"/api/v1/cfssl/info")
		if notReady == nil {
			return nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-s.done:
			return fmt.Errorf("%s ended before it answered: %s\n%s", s.kind, s.cmd.ProcessState, s.Log())
		case <-ctx.Done():
			s.Stop()
			return fmt.Errorf("%s does not answer: %w\n%s", s.kind, notReady, s.Log())
		}
	}
}

// exec starts the process with its output appended to its log file.
func (s *Server) exec() error {
	log, err := os.OpenFile(s.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() // the process has its own descriptor
	binary, _, _ := strings.Cut(string(s.kind), " ")
	s.cmd = exec.Command(filepath.Join(s.site.dir, binary), s.site.documented.commandLine(s.kind, s.dir, s.port)...)
	s.cmd.Stdout, s.cmd.Stderr = log, log
	s.cmd.SysProcAttr = procAttr()
	s.done = make(chan struct{})
	started := make(chan error)
	go func() {
		// The kernel's "kill it when its parent dies" means the thread that forks.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(s.done)
		err := s.cmd.Start()
		started <- err
		if err == nil {
			_ = s.cmd.Wait() // how it ended is in ProcessState
		}
	}()
	return <-started
}

// Stop ends the server at once, if it runs.
func (s *Server) Stop() {
	if s.cmd == nil || s.cmd.Process == nil {
		return
	}
	_ = s.cmd.Process.Kill() // fails only if it has ended already
	<-s.done
}

func (s *Server) logFile() string { return filepath.Join(s.dir, "log") }

// Log returns what the server has printed.
func (s *Server) Log() string {
	data, err := os.ReadFile(s.logFile())
	if err != nil {
		return err.Error()
	}
	return string(data)
}

func (s *Server) client() (*http.Client, error) {
	trusted := x509.NewCertPool()
	pem, err := os.ReadFile(s.site.ServerCAFile)
	if err != nil {
		return nil, err
	}
	trusted.AppendCertsFromPEM(pem)
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: trusted}}}, nil
}

// ask posts to the endpoint, which answers once the server is up.
func ask(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader([]byte("{}")))
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers with status %d", url, response.StatusCode)
	}
	return nil
}
