// Package source reads the source directory of a store: a pod's volume with a Secret or a pod certificate, or
// a directory that an agent fills.
package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/fsnotify/fsnotify"

	"github.com/servingcert/servingcert/pkg/formats"
	"github.com/servingcert/servingcert/pkg/hostfiles"
	"github.com/servingcert/servingcert/pkg/hostfiles/hostpath"
)

// data is the link that a kubelet replaces to update all files of a volume atomically.
const data = "..data"

// maxFile is the maximum size of a file, in bytes.
const maxFile = 1 << 20

// Read reads the files of a directory. The files of a volume are all of one version. Read follows links only within
// the directory, as a volume has them, so that a user who can write to it, or to a directory above it, cannot make root
// read other files.
func Read(dir string) (hostfiles.Files, error) {
	const attempts = 3
	opened, err := hostpath.OpenWritable(dir)
	if err != nil {
		return hostfiles.Files{}, err
	}
	defer opened.Close()
	root := opened.Root
	for range attempts {
		version, err := root.Readlink(data)
		if err != nil {
			return read(root, ".")
		}
		files, err := read(root, version)
		if now, _ := root.Readlink(data); now == version {
			return files, err
		}
	}
	return hostfiles.Files{}, fmt.Errorf("%s: changed during each read", dir)
}

func read(root *os.Root, version string) (files hostfiles.Files, err error) {
	if _, err := root.Stat(version); err != nil {
		return files, fmt.Errorf("%s: %w", root.Name(), err)
	}
	for name, into := range map[string]*[]byte{
		hostfiles.CertFile: &files.Cert, hostfiles.KeyFile: &files.Key,
		formats.CombinedFile: &files.Combined, hostfiles.BundleFile: &files.Bundle,
	} {
		if *into, err = readFile(root, filepath.Join(version, name)); err != nil {
			return hostfiles.Files{}, fmt.Errorf("%s: %w", filepath.Join(root.Name(), version, name), err)
		}
	}
	return files, nil
}

// readFile reads a regular file; nil if it does not exist.
func readFile(root *os.Root, name string) ([]byte, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe must not block
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("is not a regular file")
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("is larger than %d bytes", maxFile)
	}
	return data, err
}

// Watch reports changes in directories. It misses changes before a directory exists, so callers must also poll,
// and call Add each time.
type Watch struct{ watcher *fsnotify.Watcher }

// NewWatch returns a Watch without directories.
func NewWatch() (*Watch, error) {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("inotify: %w", err)
	}
	return &Watch{watcher}, nil
}

// Add watches a directory, which may be missing or watched already.
func (w *Watch) Add(dir string) { _ = w.watcher.Add(dir) }

// Run calls changed with the directory of each change, until ctx ends.
func (w *Watch) Run(ctx context.Context, changed func(dir string)) {
	defer w.watcher.Close()
	for {
		select {
		case <-ctx.Done():
			return
		case event, ok := <-w.watcher.Events:
			if !ok {
				return
			}
			if event.Op != fsnotify.Chmod {
				changed(filepath.Dir(event.Name))
			}
		case _, ok := <-w.watcher.Errors:
			if !ok {
				return
			}
		}
	}
}
