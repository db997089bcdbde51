package store

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"

	"github.com/servingcert/servingcert/pkg/hostfiles"
)

// Install switches the store to a content. With keepPrevious, the link previous is unchanged. After an error
// or a crash, Install can be called again.
func (s *Store) Install(c *hostfiles.Content, keepPrevious bool) error {
	if s.spec.Kind == hostfiles.Bundle {
		return s.publish(func(d *dir, name string) error {
			return d.write(name, c.Files[hostfiles.BundleFile], s.access(hostfiles.BundleFile))
		})
	}
	name, err := s.stage(c)
	if err != nil {
		return err
	}
	before, err := s.target(currentLink)
	if err != nil {
		return err
	}
	if before != "" && before != name && !keepPrevious {
		if found, _, err := s.loadDir(s.home, before); err == nil && found.Content != nil {
			if err := s.link(previousLink, before); err != nil {
				return err
			}
		}
	}
	if before != name {
		if err := s.link(currentLink, name); err != nil {
			return err
		}
	}
	if s.spec.Combined {
		if err := s.link(s.spec.CombinedFile(), path.Join(currentLink, s.spec.CombinedFile())); err != nil {
			return err
		}
	}
	if s.spec.Path != "" {
		err := s.publish(func(d *dir, name string) error {
			if err := s.writeDir(d, name, c); err != nil {
				return err
			}
			if err := d.write(path.Join(name, marker), nil, access{0o644, -1, -1}); err != nil {
				return err
			}
			return d.sync(name)
		})
		if err != nil {
			return err
		}
	}
	s.notify()
	return s.prune()
}

// stage writes the generation of a content, unless it exists, and returns its name.
func (s *Store) stage(c *hostfiles.Content) (string, error) {
	name := c.Fingerprint[:8]
	found, _, err := s.loadDir(s.home, name)
	if err == nil && found.Content != nil && found.Content.ID != c.ID {
		name += "-" + c.ID[:8] // a generation of the same leaf has another chain or bundle
		found, _, err = s.loadDir(s.home, name)
	}
	if err != nil || found.Content != nil && found.Content.ID == c.ID {
		return name, err
	}
	tmp := tmpPrefix + name
	if err := s.home.remove(tmp); err != nil {
		return "", err
	}
	if err := s.writeDir(s.home, tmp, c); err != nil {
		return "", err
	}
	if err := s.home.sync(tmp); err != nil {
		return "", err
	}
	info, err := s.home.lstat(name)
	switch {
	case err != nil:
		return "", err
	case info == nil:
		err = s.home.rename(tmp, name)
	default: // the existing directory is damaged
		err = s.home.exchange(tmp, name)
	}
	if err != nil {
		return "", err
	}
	if err := s.home.sync("."); err != nil || info == nil {
		return name, err
	}
	return name, s.home.remove(tmp)
}

func (s *Store) writeDir(d *dir, name string, c *hostfiles.Content) error {
	if err := d.mkdir(name); err != nil {
		return err
	}
	for _, file := range slices.Sorted(maps.Keys(c.Files)) {
		if err := d.write(path.Join(name, file), c.Files[file], s.access(file)); err != nil {
			return err
		}
	}
	return nil
}

// link points a link of the store to the target, by one rename.
func (s *Store) link(name, target string) error {
	info, err := s.home.lstat(name)
	if err != nil {
		return err
	}
	if info != nil && info.Mode()&fs.ModeSymlink != 0 {
		was, err := s.home.root.Readlink(name)
		if err != nil || was == target {
			return err
		}
	}
	if info != nil && !ours(s.home, name, "") {
		return s.takeOver(s.home, name, func(staged string) error { return s.home.symlink(target, staged) })
	}
	tmp := tmpPrefix + name
	if err := s.home.remove(tmp); err != nil {
		return err
	}
	if err := s.home.symlink(target, tmp); err != nil {
		return err
	}
	if err := s.home.rename(tmp, name); err != nil {
		return err
	}
	return s.home.sync(".")
}

// publish replaces the path of the store with the file or directory that write creates.
func (s *Store) publish(write func(d *dir, name string) error) error {
	if err := makeDirs(filepath.Dir(s.spec.Path), s.hook); err != nil {
		return err
	}
	d, err := openDir(filepath.Dir(s.spec.Path), s.hook)
	if err != nil {
		return err
	}
	defer d.close()
	name := filepath.Base(s.spec.Path)
	info, err := d.lstat(name)
	if err != nil {
		return err
	}
	if info != nil && s.foreign(d, name, info) || s.halfTaken(d, name) {
		return s.takeOver(d, name, func(staged string) error { return write(d, staged) })
	}
	if !slices.Contains(s.State.Owned, s.spec.Path) {
		s.State.Owned = append(s.State.Owned, s.spec.Path)
		if err := s.Save(); err != nil {
			return err
		}
	}
	tmp := tmpPrefix + name
	if err := d.remove(tmp); err != nil {
		return err
	}
	if err := write(d, tmp); err != nil {
		return err
	}
	if info == nil || s.spec.Kind == hostfiles.Bundle && !info.IsDir() {
		if err := d.rename(tmp, name); err != nil {
			return err
		}
		return d.sync(".")
	}
	if err := d.exchange(tmp, name); err != nil {
		return err
	}
	if err := d.sync("."); err != nil {
		return err
	}
	return d.remove(tmp)
}

// foreign reports whether a file or directory at the path of the store is not the store's.
func (s *Store) foreign(d *dir, name string, info fs.FileInfo) bool {
	return !ours(d, name, "") && (info.IsDir() || !slices.Contains(s.State.Owned, s.spec.Path))
}

// prune removes all generations except current, previous and the newest of the others.
func (s *Store) prune() error {
	entries, err := fs.ReadDir(s.home.root.FS(), ".")
	if err != nil {
		return err
	}
	current, err := s.target(currentLink)
	if err != nil {
		return err
	}
	previous, err := s.target(previousLink)
	if err != nil {
		return err
	}
	kept := map[string]bool{current: true, previous: true}
	delete(kept, "")
	var others []fs.FileInfo
	for _, e := range entries {
		if info, err := e.Info(); err == nil && e.IsDir() && generation.MatchString(e.Name()) && !kept[e.Name()] {
			others = append(others, info)
		}
	}
	slices.SortFunc(others, func(a, b fs.FileInfo) int {
		return cmp.Or(b.ModTime().Compare(a.ModTime()), cmp.Compare(a.Name(), b.Name()))
	})
	for i, info := range others {
		if i+len(kept) < generations {
			continue
		}
		if err := s.home.remove(info.Name()); err != nil {
			return fmt.Errorf("remove an old generation: %w", err)
		}
	}
	return nil
}

// notify changes the times of certificates and keys of former generations. A program that watches its open
// files, as those of Kubernetes do, gets no event when a link changes. After any event, it reads the files
// again by their paths.
func (s *Store) notify() {
	current, err := s.target(currentLink)
	if err != nil {
		return
	}
	former, err := fs.Glob(s.home.root.FS(), "*/"+"tls.*")
	if err != nil {
		return
	}
	now := s.clock()
	for _, file := range former {
		if dir := path.Dir(file); dir != current && generation.MatchString(dir) {
			_ = s.home.root.Chtimes(file, now, now) // best effort
		}
	}
}
