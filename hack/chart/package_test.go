package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

var digests = map[string]string{
	"webhook": "sha256:" + strings.Repeat("a", 64),
	"signer":  "sha256:" + strings.Repeat("b", 64),
	"rotator": "sha256:" + strings.Repeat("c", 64),
}

func packageArgs(dir string) []string {
	args := []string{"package", "-version", "v9.8.7", "-registry", "mirror.example.com:5000/deep", "-epoch", "1700000000", "-dir", dir}
	for process, digest := range digests {
		args = append(args, "-digest", process+"="+digest)
	}
	return args
}

// images returns the images of a manifest by the names of their containers.
func imagesOf(t *testing.T, objects []*unstructured.Unstructured) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, object := range objects {
		containers, _, err := unstructured.NestedSlice(object.Object, "spec", "template", "spec", "containers")
		require.NoError(t, err)
		for _, container := range containers {
			fields, ok := container.(map[string]any)
			require.True(t, ok)
			name, _, err := unstructured.NestedString(fields, "name")
			require.NoError(t, err)
			found[name], _, err = unstructured.NestedString(fields, "image")
			require.NoError(t, err)
		}
	}
	return found
}

// install.yaml and the chart's archive name the same images by digest, are reproducible, and all files
// have the release's time.
func TestPackage(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	require.NoError(t, run(packageArgs(first)))
	require.NoError(t, run(packageArgs(second)))
	want := map[string]string{}
	for process, digest := range digests {
		want[process] = "mirror.example.com:5000/deep/servingcert/" + process + ":v9.8.7@" + digest
	}
	for _, name := range []string{"servingcert-9.8.7.tgz", "install.yaml"} {
		one, err := os.ReadFile(filepath.Join(first, name))
		require.NoError(t, err)
		two, err := os.ReadFile(filepath.Join(second, name))
		require.NoError(t, err)
		require.Equal(t, one, two, name)
	}
	install, err := os.ReadFile(filepath.Join(first, "install.yaml"))
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(install), "# servingcert v9.8.7: "))
	objects, err := decode(install)
	require.NoError(t, err)
	require.Equal(t, want, imagesOf(t, objects))

	archived := filepath.Join(first, "servingcert-9.8.7.tgz")
	c, err := loader.LoadFile(archived)
	require.NoError(t, err)
	require.Equal(t, "9.8.7", c.Metadata.Version)
	require.Equal(t, "v9.8.7", c.Metadata.AppVersion)
	r, err := chart{c}.render(defaultNamespace, nil)
	require.NoError(t, err)
	fromChart, err := r.objects()
	require.NoError(t, err)
	require.Equal(t, objects, fromChart)
	for name, header := range archiveOf(t, archived) {
		require.Equal(t, time.Unix(1700000000, 0).UTC(), header.ModTime.UTC(), name)
	}
}

func archiveOf(t *testing.T, path string) map[string]*tar.Header {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	unzipped, err := gzip.NewReader(f)
	require.NoError(t, err)
	require.True(t, unzipped.ModTime.IsZero())
	headers := map[string]*tar.Header{}
	for archive := tar.NewReader(unzipped); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			require.NotEmpty(t, headers)
			return headers
		}
		require.NoError(t, err)
		headers[header.Name] = header
	}
}

// Only the values of the release change; comments stay.
func TestPublishedValues(t *testing.T) {
	c, err := load(filepath.Join(repository, chartDir))
	require.NoError(t, err)
	made, err := c.published(publication{version: "v9.8.7", registry: "r.example.com", digests: digests})
	require.NoError(t, err)
	text := map[string]string{}
	for _, f := range made.Raw {
		text[f.Name] = string(f.Data)
	}
	before := map[string]string{}
	for _, f := range c.Raw {
		before[f.Name] = string(f.Data)
	}
	changed := map[string][]string{}
	for name := range before {
		old, now := strings.Split(before[name], "\n"), strings.Split(text[name], "\n")
		require.Len(t, now, len(old), name)
		for i := range old {
			if old[i] != now[i] {
				changed[name] = append(changed[name], strings.TrimSpace(now[i]))
			}
		}
	}
	require.Equal(t, map[string][]string{
		"Chart.yaml":  {"version: 9.8.7", "appVersion: v9.8.7"},
		"values.yaml": {"registry: r.example.com", "digest: " + digests["signer"], "digest: " + digests["rotator"], "digest: " + digests["webhook"]},
	}, changed)
}

func TestNotPublished(t *testing.T) {
	require.ErrorContains(t, run([]string{"package"}), "--version and --dir are required")
	require.ErrorContains(t, run([]string{"package", "-digest", "signer"}), "must be PROCESS=DIGEST")
	unknown := append(packageArgs(t.TempDir()), "-digest", "none=sha256:1")
	require.ErrorContains(t, run(unknown), "none.image.digest: does not exist")
	wrong := append(packageArgs(t.TempDir()), "-digest", "signer=latest")
	require.Error(t, run(wrong), "the schema rejects an invalid digest")
	_, err := setScalars([]byte("a: b # why\n"), map[string]string{"a": "c"})
	require.ErrorContains(t, err, "line 1: a: must be alone")
	_, err = setScalars([]byte("a: {b: c}\n"), map[string]string{"a.b": "d"})
	require.ErrorContains(t, err, "line 1: a.b: must be alone")
}
