package store

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"

	"github.com/servingcert/servingcert/pkg/hostfiles"
)

// Contents are the installed and the previous content of a store.
type Contents struct {
	Here, Previous hostfiles.Found
	// Access describes a file with a wrong mode or owner; "" if there is none.
	Access string
}

// Load reads the contents of the store. Damaged files are reported in Found; an error is one of the file system.
func (s *Store) Load() (c Contents, err error) {
	if s.spec.Kind == hostfiles.Bundle || s.spec.Path != "" {
		c.Here, c.Access, err = s.loadPath()
	} else {
		c.Here, c.Access, err = s.loadLink(currentLink)
	}
	if err != nil || s.spec.Kind == hostfiles.Bundle {
		return c, err
	}
	c.Previous, _, err = s.loadLink(previousLink)
	return c, err
}

// loadLink reads the generation that a link points to.
func (s *Store) loadLink(link string) (hostfiles.Found, string, error) {
	target, err := s.target(link)
	if err != nil || target == "" {
		return hostfiles.Found{}, "", err
	}
	return s.loadDir(s.home, target)
}

// target returns the name of the generation that a link points to, or "" if it is not such a link.
func (s *Store) target(link string) (string, error) {
	info, err := s.home.lstat(link)
	if err != nil || info == nil || info.Mode()&fs.ModeSymlink == 0 {
		return "", err
	}
	target, err := s.home.root.Readlink(link)
	if err != nil || !generation.MatchString(target) {
		return "", err
	}
	return target, nil
}

// loadPath reads the file or directory at the path of the store.
func (s *Store) loadPath() (found hostfiles.Found, differs string, err error) {
	d, err := openDir(filepath.Dir(s.spec.Path), s.hook)
	if errors.Is(err, fs.ErrNotExist) {
		return found, "", nil
	}
	if err != nil {
		return found, "", err
	}
	defer d.close()
	base := filepath.Base(s.spec.Path)
	info, err := d.lstat(base)
	switch {
	case err != nil || info == nil:
		return found, "", err
	case s.spec.Kind == hostfiles.Pair && info.IsDir():
		return s.loadDir(d, base)
	case s.spec.Kind == hostfiles.Bundle && info.Mode().IsRegular():
		data, err := d.read(base)
		if err != nil {
			return found, "", err
		}
		found.Content, found.Problem = hostfiles.Read(s.spec, hostfiles.Files{Bundle: data}, nil)
		if found.Content != nil && !bytes.Equal(data, found.Content.Files[hostfiles.BundleFile]) {
			found.Content.ID = ""
		}
		return found, s.access(hostfiles.BundleFile).differs(info), nil
	}
	return hostfiles.Found{Problem: fmt.Errorf("%s: has mode %s: must be a directory for a pair, or a regular file for a bundle", s.spec.Path, info.Mode())}, "", nil
}

// loadDir reads the pair in a directory. A pair with other bytes than a store would write, such as an original,
// gets no ID, so that it equals no other content.
func (s *Store) loadDir(d *dir, name string) (found hostfiles.Found, differs string, err error) {
	var files hostfiles.Files
	for file, into := range map[string]*[]byte{hostfiles.CertFile: &files.Cert, hostfiles.KeyFile: &files.Key, hostfiles.BundleFile: &files.Bundle} {
		var problem error
		if *into, problem = d.read(path.Join(name, file)); problem != nil {
			found.Problem = problem
		}
	}
	info, err := d.lstat(name)
	if err != nil || info == nil || found.Problem != nil {
		return found, "", err
	}
	if found.Content, found.Problem = hostfiles.Read(s.spec, files, nil); found.Content == nil {
		return found, "", nil
	}
	for file, want := range found.Content.Files {
		if data, problem := d.read(path.Join(name, file)); problem != nil || !bytes.Equal(data, want) {
			found.Content.ID = ""
			continue
		}
		if info, err = d.lstat(path.Join(name, file)); err != nil {
			return found, "", err
		}
		if info != nil && differs == "" {
			differs = s.access(file).differs(info)
		}
	}
	return found, differs, nil
}

// access returns the configured mode and owner of a file.
func (s *Store) access(file string) access {
	a := access{0o644, s.spec.UID, s.spec.GID}
	if file == hostfiles.KeyFile || file == s.spec.CombinedFile() || s.spec.Kind == hostfiles.Bundle {
		a.mode = s.spec.Mode
	}
	return a
}

// SetModes sets mode and owner of the installed files.
func (s *Store) SetModes(c *hostfiles.Content) error {
	d, name := s.home, currentLink
	if s.spec.Path != "" {
		var err error
		if d, err = openDir(filepath.Dir(s.spec.Path), s.hook); err != nil {
			return err
		}
		defer d.close()
		name = filepath.Base(s.spec.Path)
	}
	if s.spec.Kind == hostfiles.Bundle {
		return d.setAccess(name, s.access(hostfiles.BundleFile))
	}
	for file := range c.Files {
		if err := d.setAccess(path.Join(name, file), s.access(file)); err != nil {
			return err
		}
	}
	return nil
}
