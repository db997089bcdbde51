package main

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestAProcessThatEndsIsStartedAgain and is counted, with what it used.
func TestAProcessThatEndsIsStartedAgain(t *testing.T) {
	health := httptest.NewServer(http.NotFoundHandler())
	defer health.Close()
	dir := t.TempDir()
	p := &process{name: "sh", path: "/bin/sh", args: []string{"-c", "echo the end; exit 3"}, dir: dir, log: filepath.Join(dir, "log"), health: health.URL}
	require.NoError(t, p.start())
	select {
	case <-p.gone:
	case <-time.After(patience):
		t.Fatal("it is started again for ever")
	}
	u := p.usage()
	assert.Len(t, u.restarts, maxRestarts+1)
	assert.Equal(t, "it ended: exit status 3; its log ends: the end", u.restarts[0])
	assert.Positive(t, u.peak)
	assert.NoError(t, p.stop())
}

func TestAProcessIsStopped(t *testing.T) {
	dir := t.TempDir()
	p := &process{name: "sleep", path: "/bin/sleep", args: []string{"1000"}, dir: dir, log: filepath.Join(dir, "log"), health: "http://127.0.0.1:0"}
	require.NoError(t, p.start())
	require.NoError(t, p.reset())
	assert.Positive(t, p.usage().peak)
	require.NoError(t, p.stop())
	assert.Empty(t, p.usage().restarts)
}
