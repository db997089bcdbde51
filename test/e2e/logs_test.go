//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

var (
	// refused matches the API server's response if a permission is missing.
	refused = regexp.MustCompile(`(?i)forbidden`)
	// privateKey matches the first line of any private key in PEM.
	privateKey = regexp.MustCompile(`-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----`)
)

// checkLogs fails the test if a log of the cluster contains a private key, or if servingcert logged a
// missing permission. An API server that has just started may deny requests before RBAC has synced. It
// returns how much it read.
func (c *cluster) checkLogs(t *testing.T, justStarted bool) (read string) {
	size, files := 0, 0
	look := func(where string, log []byte, patterns ...*regexp.Regexp) {
		size += len(log)
		files++
		for _, pattern := range patterns {
			if found := pattern.FindIndex(log); found != nil {
				t.Errorf("log of %s contains %q: …%s…", where, pattern, log[max(0, found[0]-200):min(len(log), found[1]+200)])
			}
		}
	}
	pods := &corev1.PodList{}
	require.NoError(t, c.admin.List(t.Context(), pods))
	for i := range pods.Items {
		pod := &pods.Items[i]
		patterns := []*regexp.Regexp{privateKey}
		ours := pod.Namespace == api.DefaultNamespace
		if ours && !justStarted {
			patterns = append(patterns, refused)
		}
		log, err := c.log(t.Context(), pod, false)
		if ours {
			require.NoError(t, err)
			require.NotEmpty(t, log, pod.Name)
		}
		look(pod.Namespace+"/"+pod.Name, log, patterns...)
		if killed, err := c.log(t.Context(), pod, true); err == nil {
			look(pod.Namespace+"/"+pod.Name+" before its end", killed, patterns...)
		}
	}
	if c.machine != nil {
		components, err := filepath.Glob(filepath.Join(c.machine.LogDir(), "*.log"))
		require.NoError(t, err)
		assert.NotEmpty(t, components)
		for _, file := range components {
			log, err := os.ReadFile(file)
			require.NoError(t, err)
			look(filepath.Base(file), log, privateKey)
		}
	}
	return fmt.Sprintf("%d logs, %d kB", files, size>>10)
}

// log returns the log of a pod's first container, or of its previous instance.
func (c *cluster) log(ctx context.Context, pod *corev1.Pod, previous bool) ([]byte, error) {
	stream, err := c.clients.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{Container: pod.Spec.Containers[0].Name, Previous: previous}).Stream(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = stream.Close() }() // already read
	return io.ReadAll(stream)
}
