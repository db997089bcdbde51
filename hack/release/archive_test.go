package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"
)

// Both kinds of archives keep names, modes, contents and times.
func TestPack(t *testing.T) {
	committed := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	files := fstest.MapFS{
		"web":     {Data: []byte("ELF"), Mode: 0o755, ModTime: committed},
		"LICENSE": {Data: []byte("Apache"), Mode: 0o644, ModTime: committed},
	}
	for _, name := range []string{"web.tar.gz", "web.zip"} {
		data, err := pack(name, files)
		require.NoError(t, err)
		path := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(path, data, 0o600))
		contents, infos := unpacked(t, path)
		require.Equal(t, map[string][]byte{"web": []byte("ELF"), "LICENSE": []byte("Apache")}, contents, name)
		require.Equal(t, fs.FileMode(0o755), infos["web"].Mode(), name)
		require.Equal(t, fs.FileMode(0o644), infos["LICENSE"].Mode(), name)
		require.Equal(t, committed, infos["web"].ModTime().UTC(), name)
	}
}
