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

// keep writes data for the analysis of a failed scene to the directory: the logs of all pods, and
// objects, but no Secrets.
func (c *cluster) keep(ctx context.Context, dir string) error {
	pods := &corev1.PodList{}
	errs := []error{c.keepList(ctx, filepath.Join(dir, "pods.yaml"), pods)}
	for i := range pods.Items {
		pod := &pods.Items[i]
		file := filepath.Join(dir, "pods", pod.Namespace, pod.Name)
		for _, previous := range []bool{false, true} {
			log, err := c.log(ctx, pod, previous)
			if err != nil || len(log) == 0 {
				continue // it has not started, or was not restarted
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

// copyLogs copies the log files of a directory, without those of containers, which were kept before.
func copyLogs(to, from string) error {
	files, err := filepath.Glob(filepath.Join(from, "*.log"))
	errs := []error{err}
	for _, file := range files {
		data, err := os.ReadFile(file)
		errs = append(errs, err, write(filepath.Join(to, filepath.Base(file)), data))
	}
	return errors.Join(errs...)
}

// ended returns the components of the node that have exited, with the end of their logs.
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
		fmt.Fprintf(&said, "the node's %s has exited: %s\n", name, lastWords(string(log)))
	}
	return said.String(), nil
}

// lastWords returns the line of a log that explains why a Go program exited: the last panic, which the
// stacks of all goroutines follow, or the last line.
func lastWords(log string) string {
	isCrash := func(line string) bool {
		return strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ")
	}
	last := ""
	for line := range strings.Lines(log) {
		if isCrash(line) || !isCrash(last) {
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
