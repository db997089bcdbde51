package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const podMonitorsFile = "../../../deploy/podmonitors.yaml"

// test/promtest/podmonitors.yaml is the output of this program.
func TestUpToDate(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out.yaml")
	if err := run(podMonitorsFile, out); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("../podmonitors.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("test/promtest/podmonitors.yaml is outdated: run make generate\n%s", got)
	}
}

// An unknown field, a file without PodMonitors and an endpoint without a token are errors.
func TestRefuses(t *testing.T) {
	data, err := os.ReadFile(podMonitorsFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ old, replacement, err string }{
		{"honorLabels:", "honourLabels:", `unknown field "honourLabels"`},
		{"kind: PodMonitor", "kind: Pod", "contains no PodMonitor"},
		{"        credentials: {name: servingcert-metrics-reader, key: token}\n", "        type: Bearer\n", "an endpoint without authorization.credentials"},
	} {
		changed := strings.ReplaceAll(string(data), tt.old, tt.replacement)
		if changed == string(data) {
			t.Errorf("%q is not in %s", tt.old, podMonitorsFile)
		}
		file := filepath.Join(t.TempDir(), "in.yaml")
		if err := os.WriteFile(file, []byte(changed), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := run(file, filepath.Join(t.TempDir(), "out.yaml")); err == nil || !strings.Contains(err.Error(), tt.err) {
			t.Errorf("with %q: %v; want %q", tt.replacement, err, tt.err)
		}
	}
}
