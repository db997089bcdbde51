package kubelet

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// The names that the kubelet's AtomicWriter uses (pkg/volume/util/atomic_writer.go
// in k8s.io/kubernetes). Programs that watch their files know them.
const (
	dataLink    = "..data"
	newDataLink = "..data_tmp"
	timestamp   = "..2006_01_02_15_04_05."
)

// Write makes dir hold exactly files, so that a reader sees all of the old ones
// or all of the new ones, and reports whether anything changed:
//
//	tls.crt -> ..data/tls.crt           stays
//	..data -> ..2026_01_02_15_04_05.123 swapped by a rename
//	..2026_01_02_15_04_05.123/tls.crt   new
//
// Paths of files are plain names: none of the demo's volumes has a directory.
func Write(dir string, files map[string]File) (changed bool, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return false, err
	}
	link := filepath.Join(dir, dataLink)
	old, err := os.Readlink(link)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if old != "" && holds(filepath.Join(dir, old), files) {
		return false, nil
	}
	now, err := newData(dir, files)
	if err != nil {
		return false, err
	}
	if err := os.Symlink(now, filepath.Join(dir, newDataLink)); err != nil {
		return false, err
	}
	if err := os.Rename(filepath.Join(dir, newDataLink), link); err != nil {
		return false, err
	}
	if err := linkNames(dir, files); err != nil {
		return false, err
	}
	if old == "" {
		return true, nil
	}
	return true, os.RemoveAll(filepath.Join(dir, old))
}

// holds reports whether data has exactly these files.
func holds(data string, files map[string]File) bool {
	entries, err := os.ReadDir(data)
	if err != nil || len(entries) != len(files) {
		return false
	}
	for name, file := range files {
		path := filepath.Join(data, name)
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != file.Mode.Perm() {
			return false
		}
		if content, err := os.ReadFile(path); err != nil || !bytes.Equal(content, file.Data) {
			return false
		}
	}
	return true
}

// newData writes the files into a directory of their own and returns its name.
func newData(dir string, files map[string]File) (name string, err error) {
	data, err := os.MkdirTemp(dir, time.Now().UTC().Format(timestamp))
	if err != nil {
		return "", err
	}
	if err := os.Chmod(data, 0o755); err != nil {
		return "", err
	}
	for name, file := range files {
		path := filepath.Join(data, name)
		if err := os.WriteFile(path, file.Data, file.Mode.Perm()); err != nil {
			return "", err
		}
		if err := os.Chmod(path, file.Mode.Perm()); err != nil { // whatever the umask is
			return "", err
		}
		if file.Group != 0 {
			if err := os.Chown(path, -1, file.Group); err != nil {
				return "", err
			}
		}
	}
	return filepath.Base(data), nil
}

// linkNames makes the names that readers use, and removes those of files that
// are no longer there.
func linkNames(dir string, files map[string]File) error {
	for name := range files {
		err := os.Symlink(filepath.Join(dataLink, name), filepath.Join(dir, name))
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if _, ok := files[entry.Name()]; ok || strings.HasPrefix(entry.Name(), "..") {
			continue
		}
		if err := os.Remove(filepath.Join(dir, entry.Name())); err != nil {
			return err
		}
	}
	return nil
}
