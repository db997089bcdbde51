//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/servingcert/servingcert/hack/node"
)

// keep writes what is needed to find out why a scene failed into the directory: the
// logs of all pods, and the objects that tell how far everything came, no Secret
// among them.
func (c *cluster) keep(ctx context.Context, dir string) error {
	pods := &corev1.PodList{}
	errs := []error{c.keepList(ctx, filepath.Join(dir, "pods.yaml"), pods)}
	for i := range pods.Items {
		pod := &pods.Items[i]
		file := filepath.Join(dir, "pods", pod.Namespace, pod.Name)
		for _, previous := range []bool{false, true} {
			log, err := c.log(ctx, pod, previous)
			if err != nil || len(log) == 0 {
				continue // it has not started, or there is no one before it
			}
			errs = append(errs, write(file+map[bool]string{false: ".log", true: ".previous.log"}[previous], log))
		}
	}
	errs = append(errs,
		c.keepList(ctx, filepath.Join(dir, "events.yaml"), &corev1.EventList{}),
		c.keepList(ctx, filepath.Join(dir, "services.yaml"), &corev1.ServiceList{}),
		c.keepList(ctx, filepath.Join(dir, "configmaps.yaml"), &corev1.ConfigMapList{}),
		c.keepList(ctx, filepath.Join(dir, "nodes.yaml"), &corev1.NodeList{}))
	for _, name := range clients {
		report, err := c.report(ctx, name)
		if err != nil {
			continue // it has not started
		}
		data, err := yaml.Marshal(report)
		errs = append(errs, err, write(filepath.Join(dir, "client-"+name+".yaml"), data))
	}
	return errors.Join(errs...)
}

func (c *cluster) keepList(ctx context.Context, file string, list client.ObjectList) error {
	if err := c.admin.List(ctx, list); err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(file), err)
	}
	data, err := yaml.Marshal(list)
	if err != nil {
		return err
	}
	return write(file, data)
}

func write(file string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o644)
}

// copyLogs copies the log files of a directory, those of containers left out: they
// have been kept with their pods.
func copyLogs(to, from string) error {
	files, err := filepath.Glob(filepath.Join(from, "*.log"))
	errs := []error{err}
	for _, file := range files {
		data, err := os.ReadFile(file)
		errs = append(errs, err, write(filepath.Join(to, filepath.Base(file)), data))
	}
	return errors.Join(errs...)
}

// ended says which components of the node do not run any more, and what each said last.
func ended(machine *node.Node) (string, error) {
	pids, err := machine.PIDs()
	if err != nil {
		return "", err
	}
	var said strings.Builder
	for _, name := range node.Components() {
		if pids[name] != 0 {
			continue
		}
		log, err := os.ReadFile(filepath.Join(machine.LogDir(), name+".log"))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&said, "the node's %s has ended: %s\n", name, lastWords(string(log)))
	}
	return said.String(), nil
}

// lastWords is the line of a log that tells why a Go program has ended: the last panic, or
// else the last line. After a panic follow the stacks of all goroutines.
func lastWords(log string) string {
	tells := func(line string) bool {
		return strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ")
	}
	last := ""
	for line := range strings.Lines(log) {
		if tells(line) || !tells(last) {
			last = line
		}
	}
	return strings.TrimSpace(last)
}

func TestLastWords(t *testing.T) {
	for log, want := range map[string]string{
		"":                                      "",
		"starts\nF1 no such flag\n":             "F1 no such flag",
		"starts\npanic: a\n\ngoroutine 1:\n\tf": "panic: a",
		"panic: a\n\tf\nstarts again\nfatal error: b\n\ngoroutine 1:\n": "fatal error: b",
	} {
		require.Equal(t, want, lastWords(log))
	}
}
