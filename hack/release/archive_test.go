package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io"
	"io/fs"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	testTime  = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	testFiles = []file{{"web", 0o755, []byte("ELF")}, {"LICENSE", 0o644, []byte("Apache")}}
)

func TestTarball(t *testing.T) {
	data, err := tarball(testFiles, testTime)
	require.NoError(t, err)
	unzipped, err := gzip.NewReader(bytes.NewReader(data))
	require.NoError(t, err)
	require.True(t, unzipped.ModTime.IsZero())
	archive := tar.NewReader(unzipped)
	for _, want := range testFiles {
		header, err := archive.Next()
		require.NoError(t, err)
		require.Equal(t, want.name, header.Name)
		require.Equal(t, int64(want.mode), header.Mode)
		require.Equal(t, testTime, header.ModTime.UTC())
		require.Zero(t, header.Uid)
		require.Empty(t, header.Uname)
		content, err := io.ReadAll(archive)
		require.NoError(t, err)
		require.Equal(t, want.content, content)
	}
	_, err = archive.Next()
	require.ErrorIs(t, err, io.EOF)
}

func TestZipball(t *testing.T) {
	data, err := zipball(testFiles, testTime)
	require.NoError(t, err)
	archive, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	require.Len(t, archive.File, len(testFiles))
	for i, want := range testFiles {
		require.Equal(t, want.name, archive.File[i].Name)
		require.Equal(t, want.mode, archive.File[i].Mode()&fs.ModePerm)
		require.Equal(t, testTime, archive.File[i].Modified.UTC())
		content, err := archive.Open(want.name)
		require.NoError(t, err)
		read, err := io.ReadAll(content)
		require.NoError(t, err)
		require.Equal(t, want.content, read)
	}
	elsewhere, err := zipball(testFiles, testTime.In(time.FixedZone("there", 3600)))
	require.NoError(t, err)
	require.Equal(t, data, elsewhere, "the builder's zone is not in it")
}
