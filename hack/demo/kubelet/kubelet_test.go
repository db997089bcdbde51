package kubelet

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

func TestExpand(t *testing.T) {
	values := map[string]string{"A": "1", "EMPTY": ""}
	for in, want := range map[string]string{
		"plain":       "plain",
		"$(A)":        "1",
		"x$(A)y$(A)z": "x1y1z",
		"$(EMPTY).":   ".",
		"$(NONE)":     "$(NONE)", // no value: stays
		"$$(A)":       "$(A)",    // escaped
		"$$$(A)":      "$1",
		"$A":          "$A",
		"$(A":         "$(A",
		"end$":        "end$",
	} {
		assert.Equal(t, want, expand(in, values), in)
	}
}

func TestCommand(t *testing.T) {
	field := &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}}
	c := corev1.Container{
		Name: "web", Command: []string{"/server"}, Args: []string{"--listen=$(IP):1", "--later=$(LATER)"},
		Env: []corev1.EnvVar{
			{Name: "EARLY", Value: "$(LATER)"}, // refers to what comes later: not expanded
			{Name: "IP", ValueFrom: field},
			{Name: "LATER", Value: "on $(IP)"},
		},
	}
	argv, env, err := Command(c, map[string]string{"status.podIP": "127.0.0.9"})
	require.NoError(t, err)
	assert.Equal(t, []string{"/server", "--listen=127.0.0.9:1", "--later=on 127.0.0.9"}, argv)
	assert.Equal(t, []string{"EARLY=$(LATER)", "IP=127.0.0.9", "LATER=on 127.0.0.9"}, env)

	_, _, err = Command(c, nil)
	assert.ErrorContains(t, err, "container web: env IP: field status.podIP is not supported")
	_, _, err = Command(corev1.Container{Name: "web"}, nil)
	assert.ErrorContains(t, err, "container web: without command")
}

func TestWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "etc", "servingcert")
	key := File{Data: []byte("key 1"), Mode: 0o440}
	write := func(files map[string]File) (changed bool) {
		before, _ := os.Readlink(filepath.Join(dir, "..data"))
		require.NoError(t, Write(dir, files))
		after, err := os.Readlink(filepath.Join(dir, "..data"))
		require.NoError(t, err)
		return before != after
	}

	assert.True(t, write(map[string]File{"tls.crt": {Data: []byte("cert 1"), Mode: 0o444}, "tls.key": key}))
	first, err := os.Readlink(filepath.Join(dir, "..data"))
	require.NoError(t, err)
	target, err := os.Readlink(filepath.Join(dir, "tls.crt"))
	require.NoError(t, err)
	assert.Equal(t, "..data/tls.crt", target)
	info, err := os.Stat(filepath.Join(dir, "tls.key"))
	require.NoError(t, err)
	assert.Equal(t, fs.FileMode(0o440), info.Mode())

	assert.False(t, write(map[string]File{"tls.crt": {Data: []byte("cert 1"), Mode: 0o444}, "tls.key": key}), "nothing changed")
	assert.True(t, write(map[string]File{"tls.crt": {Data: []byte("cert 1"), Mode: 0o444}, "tls.key": {Data: key.Data, Mode: 0o400}}), "a mode changed")

	// The old files exist until the new ones are complete.
	assert.True(t, write(map[string]File{"tls.crt": {Data: []byte("cert 2"), Mode: 0o444}, "ca.crt": {Data: []byte("ca"), Mode: 0o444}}))
	content, err := os.ReadFile(filepath.Join(dir, "tls.crt"))
	require.NoError(t, err)
	assert.Equal(t, "cert 2", string(content))
	assert.NoFileExists(t, filepath.Join(dir, "tls.key"))
	assert.NoDirExists(t, filepath.Join(dir, first))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, entries, 4, "one data directory, ..data, tls.crt, ca.crt: %v", entries)
}
