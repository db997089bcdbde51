package fault

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestChoose(t *testing.T) {
	assert.Equal(t, Pass, Choose(http.MethodPost, 0, 0, 0))
	assert.Equal(t, Pass, Choose(http.MethodPost, 0.2, 0.2, 0))
	reads, writes := map[Answer]bool{}, map[Answer]bool{}
	for v := 0.0; v < 1; v += 0.01 {
		reads[Choose(http.MethodGet, 0.2, 0.19, v)] = true
		writes[Choose(http.MethodPut, 0.2, 0.19, v)] = true
	}
	assert.Equal(t, map[Answer]bool{Busy: true, Broken: true, Silent: true, Cut: true}, reads)
	assert.Len(t, writes, int(answers)-1, "all but that it passes")
	assert.NotContains(t, writes, Pass)
}

// TestTCP: what is sent arrives in order, and late if it is to be.
func TestTCP(t *testing.T) {
	echo, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = echo.Close() })
	go func() {
		for {
			conn, err := echo.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(conn, conn) }()
		}
	}()
	p, err := NewTCP(echo.Addr().String())
	require.NoError(t, err)
	conn, err := net.Dial("tcp", p.Address())
	require.NoError(t, err)
	answers := bufio.NewReader(conn)
	ask := func(text string) time.Duration {
		start := time.Now()
		_, err := io.WriteString(conn, text+"\n")
		require.NoError(t, err)
		got, err := answers.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, text+"\n", got)
		return time.Since(start)
	}
	ask("at once")
	p.SetDelay(100*time.Millisecond, 150*time.Millisecond)
	assert.GreaterOrEqual(t, ask("late"), 100*time.Millisecond)
	require.NoError(t, p.Close())
	_, err = answers.ReadString('\n')
	require.Error(t, err, "its connections end with it")
}

// TestAPIServer: each answer is what it says, and only what was not cut before was carried out.
func TestAPIServer(t *testing.T) {
	var carriedOut atomic.Int64
	genuine := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		carriedOut.Add(1)
		_, _ = io.WriteString(w, r.Header.Get("Authorization"))
	}))
	t.Cleanup(genuine.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: genuine.Certificate().Raw})
	p, err := NewAPIServer(genuine.URL, ca)
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.Close() })
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(p.CA))
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}}
	send := func(method string) (*http.Response, string, error) {
		req, err := http.NewRequestWithContext(t.Context(), method, p.Host(), http.NoBody)
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer x")
		resp, err := client.Do(req)
		if err != nil {
			return nil, "", err
		}
		defer func() { _ = resp.Body.Close() }()
		body, err := io.ReadAll(resp.Body)
		return resp, string(body), err
	}
	_, body, err := send(http.MethodPut)
	require.NoError(t, err)
	assert.Equal(t, "Bearer x", body)

	p.SetShare(1)
	codes := map[int]bool{}
	for range 200 {
		ctx, cancel := context.WithTimeout(t.Context(), silence/2)
		req, err := http.NewRequestWithContext(ctx, http.MethodPut, p.Host(), http.NoBody)
		require.NoError(t, err)
		if p.Count()["no answer"] > 0 { // one is enough to wait for
			cancel()
			break
		}
		if resp, err := client.Do(req); err == nil {
			codes[resp.StatusCode] = true
			if resp.StatusCode == http.StatusTooManyRequests {
				assert.Equal(t, "1", resp.Header.Get("Retry-After"))
			}
			_ = resp.Body.Close()
		}
		cancel()
	}
	assert.Subset(t, []int{429, 409, 500}, keys(codes))
	count := p.Count()
	assert.Equal(t, count["passed"]+count["answer lost"], carriedOut.Load())
	assert.Positive(t, count["no answer"])
}

func keys(m map[int]bool) (out []int) {
	for k := range m {
		out = append(out, k)
	}
	return out
}

func TestDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may mount")
	}
	d, err := MountDisk(filepath.Join(t.TempDir(), "disk"), 4<<20)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Unmount()) })
	require.NoError(t, os.WriteFile(d.Path("a"), make([]byte, 8<<10), 0o600))
	require.NoError(t, d.Fill())
	require.ErrorIs(t, os.WriteFile(d.Path("b"), make([]byte, 8<<10), 0o600), syscall.ENOSPC)
	require.NoError(t, d.Free())
	require.NoError(t, os.WriteFile(d.Path("b"), make([]byte, 8<<10), 0o600))
	require.NoError(t, d.Unmount())
	require.NoError(t, d.Unmount(), "a second time")
}
