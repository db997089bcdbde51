package store

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/servingcert/servingcert/pkg/hostfiles"
)

// takeOver replaces a foreign file or directory with the one that stage creates, and keeps the original under
// another name in the same directory. The two are exchanged in one step. The state with the original is saved
// before that step, so that a crash loses nothing.
func (s *Store) takeOver(d *dir, name string, stage func(staged string) error) error {
	full := filepath.Join(d.root.Name(), name)
	if i := s.original(full); i >= 0 {
		// The exchange did not follow the save, or the published file was replaced.
		half := s.State.Originals[i]
		if ours(d, half.Kept, half.Sum) {
			if err := d.remove(half.Kept); err != nil {
				return err
			}
		} else if info, err := d.lstat(half.Kept); err != nil || info != nil {
			return errors.Join(err, s.overwrite(d, name, stage))
		}
		s.State.Originals = slices.Delete(s.State.Originals, i, i+1)
	}
	kept, tmp := s.keptName(name), tmpPrefix+name
	if err := d.remove(tmp); err != nil {
		return err
	}
	if err := stage(tmp); err != nil {
		return err
	}
	s.State.Originals = append(s.State.Originals, hostfiles.Original{Path: full, Kept: kept, Sum: sum(d, tmp)})
	if !slices.Contains(s.State.Owned, full) {
		s.State.Owned = append(s.State.Owned, full)
	}
	if err := s.Save(); err != nil {
		return err
	}
	if err := d.rename(tmp, kept); err != nil {
		return err
	}
	if err := d.exchange(kept, name); err != nil {
		return err
	}
	return d.sync(".")
}

// overwrite replaces a file or directory whose original is already kept.
func (*Store) overwrite(d *dir, name string, stage func(staged string) error) error {
	if _, err := d.published(name); err != nil {
		return err
	}
	tmp := tmpPrefix + name
	if err := d.remove(tmp); err != nil {
		return err
	}
	if err := stage(tmp); err != nil {
		return err
	}
	if err := d.exchange(tmp, name); err != nil {
		return err
	}
	if err := d.sync("."); err != nil {
		return err
	}
	return d.remove(tmp)
}

// original returns the index of the original from a path, or -1.
func (s *Store) original(full string) int {
	return slices.IndexFunc(s.State.Originals, func(o hostfiles.Original) bool { return o.Path == full })
}

// halfTaken reports whether a takeover was saved but not done: the path does not have the store's file.
func (s *Store) halfTaken(d *dir, name string) bool {
	i := s.original(filepath.Join(d.root.Name(), name))
	if i < 0 {
		return false
	}
	o := s.State.Originals[i]
	kept, err := d.lstat(o.Kept)
	return ours(d, o.Kept, o.Sum) || err == nil && kept == nil && !ours(d, name, o.Sum)
}

// ours reports whether a store created the entry: it is a link to a generation or below current, a directory with
// a marker or a state, or a file with the sum.
func ours(d *dir, name, wantSum string) bool {
	info, err := d.lstat(name)
	switch {
	case err != nil || info == nil:
		return false
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := d.root.Readlink(name)
		return err == nil && (generation.MatchString(target) || strings.HasPrefix(target, currentLink+"/"))
	case info.IsDir():
		for _, file := range []string{marker, stateFile} {
			if info, err := d.lstat(path.Join(name, file)); err == nil && info != nil {
				return true
			}
		}
		return false
	}
	return wantSum != "" && sum(d, name) == wantSum
}

// sum returns the SHA-256 of a regular file, or "".
func sum(d *dir, name string) string {
	data, err := d.read(name)
	if err != nil || data == nil {
		return ""
	}
	digest := sha256.Sum256(data)
	return hex.EncodeToString(digest[:])
}

// Remove removes the store, and restores the originals. It closes the store. If it fails, it can be called again
// on the store, opened anew.
func (s *Store) Remove() (restored []string, err error) {
	defer s.Close()
	home := s.at(s.spec.Name)
	for _, o := range slices.Backward(s.State.Originals) {
		if o.Path == home {
			continue
		}
		back, err := s.putBack(o)
		if err != nil {
			return restored, err
		}
		if back {
			restored = append(restored, o.Path)
		}
	}
	for _, owned := range s.State.Owned {
		if s.original(owned) >= 0 {
			continue
		}
		if err := s.removePath(owned); err != nil {
			return restored, err
		}
	}
	back, err := s.removeHome(home)
	if back {
		restored = append(restored, home)
	}
	return restored, err
}

// putBack restores an original, and removes the file or directory that replaced it.
func (s *Store) putBack(o hostfiles.Original) (bool, error) {
	d, err := openDir(filepath.Dir(o.Path), s.hook)
	if err != nil {
		return false, err
	}
	defer d.close()
	name := filepath.Base(o.Path)
	if err := d.remove(tmpPrefix + name); err != nil {
		return false, err
	}
	if info, err := d.lstat(o.Kept); err != nil || info == nil {
		return false, err // an earlier call restored it
	}
	back := !ours(d, o.Kept, o.Sum)
	if back {
		info, err := d.published(name)
		if err != nil {
			return false, err
		}
		if i := s.original(o.Path); info != nil && info.Mode().IsRegular() {
			// After a crash that follows the next step, this sum identifies the store's file.
			s.State.Originals[i].Sum = sum(d, name)
			if err := s.Save(); err != nil {
				return false, err
			}
		}
		if info == nil {
			err = d.rename(o.Kept, name)
		} else {
			err = d.exchange(o.Kept, name)
		}
		if err != nil {
			return false, err
		}
		if err := d.sync("."); err != nil {
			return false, err
		}
	}
	return back, d.remove(o.Kept)
}

func (s *Store) removePath(full string) error {
	d, err := openDir(filepath.Dir(full), s.hook)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: its directory is not here, so the files there cannot be removed. Mount the directory or, if it was deleted, create it empty: %w", full, err)
	}
	if err != nil {
		return err
	}
	defer d.close()
	name := filepath.Base(full)
	if err := d.remove(tmpPrefix + name); err != nil {
		return err
	}
	if _, err := d.published(name); err != nil {
		return err
	}
	if err := d.remove(name); err != nil {
		return err
	}
	return d.sync(".")
}

// published returns what is at the path of a store, or nil. A directory that the store did not create is an error.
func (d *dir) published(name string) (fs.FileInfo, error) {
	info, err := d.lstat(name)
	if err == nil && info != nil && info.IsDir() && !ours(d, name, "") {
		return nil, fmt.Errorf("%s: hostsync did not create this directory: move it elsewhere, and try again", filepath.Join(d.root.Name(), name))
	}
	return info, err
}

// removeHome removes the store's files from its directory, and the directory if it is empty then. If a file was
// there originally, it removes all of the directory and restores the file.
func (s *Store) removeHome(home string) (bool, error) {
	if i := s.original(home); i >= 0 {
		return s.putBack(s.State.Originals[i])
	}
	entries, err := fs.ReadDir(s.home.root.FS(), ".")
	if err != nil {
		return false, err
	}
	restored := map[string]bool{}
	for _, o := range s.State.Originals {
		restored[o.Path] = true
	}
	for _, e := range entries {
		name := e.Name()
		own := generation.MatchString(name) || strings.HasPrefix(name, tmpPrefix) ||
			slices.Contains([]string{currentLink, previousLink, lockFile, s.spec.CombinedFile()}, name)
		if own && !restored[filepath.Join(home, name)] {
			if err := s.home.remove(name); err != nil {
				return false, err
			}
		}
	}
	if err := s.home.remove(stateFile); err != nil { // last: Remove needs it to resume
		return false, err
	}
	parent, err := openDir(s.root, s.hook)
	if err != nil {
		return false, err
	}
	defer parent.close()
	if err := parent.step("remove", s.spec.Name); err != nil {
		return false, err
	}
	if err := parent.root.Remove(s.spec.Name); err != nil && !errors.Is(err, fs.ErrExist) && !errors.Is(err, unix.ENOTEMPTY) {
		return false, err
	}
	return false, parent.sync(".")
}
