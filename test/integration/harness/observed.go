package harness

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/hack/process"
)

// StartSigner runs the signer, built into dir, with the rights of the manifests and without a Lease,
// until the test ends, or it is stopped or killed.
func StartSigner(t testing.TB, plane *controlplane.ControlPlane, dir string, flags ...string) *Program {
	t.Helper()
	p, err := Process(t.Context(), plane, dir, "signer", append([]string{"--leader-elect=false", "--log-level=debug"}, flags...)...)
	require.NoError(t, err)
	p.Start(t)
	p.StopAtEnd(t)
	return p
}

// Said waits for an event with the reason about the object with that UID, and returns its note.
func Said(t testing.TB, c kubernetes.Interface, namespace string, about types.UID, reason string) (note string) {
	t.Helper()
	Eventually(t, func() error {
		list, err := c.EventsV1().Events(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range list.Items {
			if e := &list.Items[i]; e.Regarding.UID == about && e.Reason == reason {
				note = e.Note
				return nil
			}
		}
		return fmt.Errorf("no event %s about %s", reason, about)
	})
	return note
}

// RunManager runs a manager, and returns what ends it, and returns its error.
func RunManager(mgr manager.Manager) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	return sync.OnceValue(func() error { cancel(); return <-done })
}

// Get fetches a URL; the body is returned whatever the status.
func Get(ctx context.Context, url string) (status int, body string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = response.Body.Close() }()
	data, err := io.ReadAll(response.Body)
	return response.StatusCode, string(data), err
}

// Repeat does something again and again until ctx ends, or it fails. Then the channel gets the
// error, nil if there is none.
func Repeat(ctx context.Context, do func(context.Context) error) <-chan error {
	done := make(chan error, 1)
	go func() {
		for again := ctx.Err() == nil; again; again = process.Sleep(ctx, 2*Tick) {
			if err := do(ctx); err != nil && ctx.Err() == nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	return done
}

// Crashing is what a kubelet says of a pod when its container "app" has exited a second after its
// fourth start, with that message, and waits.
func Crashing(message string) corev1.PodStatus {
	now := time.Now()
	started := metav1.NewTime(now.Add(-time.Minute))
	return corev1.PodStatus{
		Phase: corev1.PodRunning, StartTime: &started,
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: started}},
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: "app", RestartCount: 3, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				ExitCode: 2, Reason: "Error", Message: message, StartedAt: metav1.NewTime(now.Add(-6 * time.Second)), FinishedAt: metav1.NewTime(now.Add(-5 * time.Second)),
			}},
		}},
	}
}
