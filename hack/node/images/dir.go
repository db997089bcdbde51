package images

import (
	"archive/tar"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// writeDir writes the files, directories and symbolic links of a directory as a tar archive, ordered
// by name, without owners and times. It omits paths that match a pattern of leaveOut, relative to
// the directory.
func writeDir(w io.Writer, dir string, leaveOut ...string) error {
	archive := tar.NewWriter(w)
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		for _, pattern := range leaveOut {
			switch out, err := filepath.Match(filepath.Join(dir, pattern), path); {
			case err != nil:
				return err
			case out && entry.IsDir():
				return filepath.SkipDir
			case out:
				return nil
			}
		}
		return writeEntry(archive, dir, path, entry)
	})
	if err != nil {
		return err
	}
	return archive.Close()
}

func writeEntry(archive *tar.Writer, dir, path string, entry fs.DirEntry) error {
	info, err := entry.Info()
	if err != nil {
		return err
	}
	link := ""
	if info.Mode()&fs.ModeSymlink != 0 {
		if link, err = os.Readlink(path); err != nil {
			return err
		}
	}
	header, err := tar.FileInfoHeader(info, link)
	if err != nil {
		return err
	}
	if header.Name, err = filepath.Rel(dir, path); err != nil {
		return err
	}
	if info.IsDir() {
		header.Name += "/"
	}
	header.Format = tar.FormatPAX
	header.Uid, header.Gid, header.Uname, header.Gname = 0, 0, "", ""
	header.ModTime, header.AccessTime, header.ChangeTime = time.Time{}, time.Time{}, time.Time{}
	if err := archive.WriteHeader(header); err != nil || !info.Mode().IsRegular() {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(archive, f)
	return err
}
