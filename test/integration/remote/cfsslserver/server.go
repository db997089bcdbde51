package cfsslserver

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/pkg/pki"
)

// Server is one that runs, or has been stopped.
type Server struct {
	URL string

	site    *Site
	dir     string
	program process.Program
}

// Use has the server sign with another CA from now on.
func (s *Server) Use(t testing.TB, ca *CA) {
	t.Helper()
	s.Stop()
	key, err := pki.EncodeKey(ca.Key)
	require.NoError(t, err)
	s.write(t, "ca.pem", string(pki.EncodeCertificates(ca.Certificate)))
	s.write(t, "ca-key.pem", string(key))
	s.Start(t)
}

// Configure changes serving.json, as documented, from now on.
func (s *Server) Configure(t testing.TB, change func(profiles string) string) {
	t.Helper()
	s.Stop()
	s.write(t, "serving.json", change(inDir(s.site.documented.profiles, s.dir)))
	s.Start(t)
}

func (s *Server) write(t testing.TB, file, content string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, file), []byte(content), 0o600))
}

// Start runs a server that was stopped, at its address, and returns when it answers.
func (s *Server) Start(t testing.TB) {
	t.Helper()
	s.program.Launch(t)
	require.Eventually(t, func() bool { return s.answers(t.Context()) == nil || s.program.Failure() != nil }, process.Soon, process.Tick)
	require.NoError(t, s.program.Failure())
}

// Stop ends the server at once, if it runs.
func (s *Server) Stop() { s.program.Kill() }

// Log returns what the server has printed.
func (s *Server) Log() string { return s.program.Log.String() }

// answers returns nil once the server is up.
func (s *Server) answers(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/api/v1/cfssl/info", strings.NewReader("{}"))
	if err != nil {
		return err
	}
	response, err := s.site.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers with status %d", s.URL, response.StatusCode)
	}
	return nil
}
