package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io/fs"
	"time"
)

// file is a file in an archive.
type file struct {
	name    string
	mode    fs.FileMode
	content []byte
}

// tarball returns the files as a .tar.gz, owned by root and all of one time.
func tarball(files []file, t time.Time) ([]byte, error) {
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	archive := tar.NewWriter(zipped)
	for _, f := range files {
		header := &tar.Header{
			Name: f.name, Mode: int64(f.mode), Size: int64(len(f.content)), ModTime: t,
			Typeflag: tar.TypeReg, Format: tar.FormatPAX,
		}
		if err := archive.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := archive.Write(f.content); err != nil {
			return nil, err
		}
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	if err := zipped.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// zipball returns the files as a .zip, all of one time.
func zipball(files []file, t time.Time) ([]byte, error) {
	var out bytes.Buffer
	archive := zip.NewWriter(&out)
	for _, f := range files {
		// UTC, or the zone of the builder is in the archive.
		header := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: t.UTC()}
		header.SetMode(f.mode)
		w, err := archive.CreateHeader(header)
		if err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
