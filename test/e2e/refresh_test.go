//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// kubeletLate is the maximum delay with which a kubelet begins to refresh (jitterDuration in
	// Kubernetes' podcertificatemanager.go).
	kubeletLate = 5 * time.Minute
	// looking is the timeout for the kubelet to check what is due, every one to two minutes.
	looking = 4 * time.Minute
)

// refreshes moves the kubelet's clock to the time at which the certificate of the server's only pod,
// valid for an hour, is due: the kubelet refreshes it, and the running process reloads it. The clocks of
// API server and signer are right. It returns a note.
func (c *cluster) refreshes(t *testing.T, s server) string {
	t.Helper()
	before := c.keyHolders(t, []server{s})
	require.Len(t, before.keys, 1)
	var pod types.UID
	for uid := range before.keys {
		pod = uid
	}
	old, err := c.issuedTo(t.Context(), s.namespace, pod)
	require.NoError(t, err)
	begun, due, end := old.Status.NotBefore.Time, old.Status.BeginRefreshAt.Time, old.Status.NotAfter.Time
	require.Equal(t, time.Hour, end.Sub(begun), "lifetime")
	assert.GreaterOrEqual(t, due.Sub(begun), 42*time.Minute)
	assert.LessOrEqual(t, due.Sub(begun), 50*time.Minute) // the API server requires that ten minutes are left

	start := time.Now()
	by := time.Until(due.Add(kubeletLate)).Truncate(time.Second)
	require.Greater(t, by, 30*time.Minute, "the clock's offset")
	moveClock(t, c.tools.kubelet, by)
	eventually(t, looking, "the kubelet requests another certificate", func(ctx context.Context) error {
		now, err := c.issuedTo(ctx, s.namespace, pod)
		if err == nil && now.Name == old.Name {
			err = errors.New("no new request")
		}
		return err
	})
	asked := time.Since(start)
	require.NoError(t, os.Remove(c.tools.kubelet+ahead)) // the next one would be due too
	c.haveOtherKeys(t, []server{s}, before, propagating)
	return fmt.Sprintf("a certificate of one hour, due after %s: the kubelet's clock was moved by %s; its request came %s later, and the new certificate was served %s later",
		due.Sub(begun), by, seconds(asked), seconds(time.Since(start)))
}

// issuedTo returns the latest request of the pod's kubelet that has a certificate.
func (c *cluster) issuedTo(ctx context.Context, namespace string, pod types.UID) (*certificatesv1.PodCertificateRequest, error) {
	requests, err := c.certificates.PodCertificateRequests(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var latest *certificatesv1.PodCertificateRequest
	for i := range requests.Items {
		r := &requests.Items[i]
		if r.Spec.PodUID == pod && r.Status.NotAfter != nil && (latest == nil || latest.CreationTimestamp.Before(&r.CreationTimestamp)) {
			latest = r
		}
	}
	if latest == nil {
		return nil, fmt.Errorf("none of %d requests is of pod %s and has a certificate", len(requests.Items), pod)
	}
	return latest, nil
}
