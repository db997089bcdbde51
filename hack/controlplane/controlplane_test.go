package controlplane

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/servingcert/servingcert/hack/process"
)

// TestControlPlane: a pod can be created right after its namespace, and Stop leaves nothing. Suites depend on the
// other guarantees.
func TestControlPlane(t *testing.T) {
	ctx := t.Context()
	cp, err := Start(ctx, Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = cp.Stop() })
	client := kubernetes.NewForConfigOrDie(cp.AdminConfig())

	makeNamespace(t, client, "shop")
	pod, err := client.CoreV1().Pods("shop").Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.com/none"}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	require.Equal(t, "default", pod.Spec.ServiceAccountName, "set by the ServiceAccount admission plugin")

	pids, dir := cp.PIDs(), cp.dir
	require.Len(t, pids, 2)
	require.NoError(t, cp.Stop())
	require.NoError(t, cp.Stop(), "a second time")
	for name, pid := range pids {
		require.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH, "%s still runs", name)
	}
	require.NoDirExists(t, dir)
}

func TestStartErrors(t *testing.T) {
	t.Run("directory in use", func(t *testing.T) {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "mine"), nil, 0o600))
		_, err := Start(t.Context(), Options{Dir: dir})
		require.ErrorContains(t, err, "is not empty: it contains mine")
		require.FileExists(t, filepath.Join(dir, "mine"))
	})
	t.Run("component that does not start", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "given")
		_, err := Start(t.Context(), Options{Dir: dir, ExtraAPIServerArgs: []string{"--no-such-flag"}})
		require.ErrorContains(t, err, "the kube-apiserver ended: exit status 1; the end of its log:\n")
		require.ErrorContains(t, err, "unknown flag: --no-such-flag")
		left, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Empty(t, left)
	})
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		_, err := Start(ctx, Options{})
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func makeNamespace(t *testing.T, client kubernetes.Interface, name string) {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	_, err := client.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{})
	require.NoError(t, err)
}

// The audit log contains the requests of the listed users, including rejected ones, and a watch
// as soon as it has started.
func TestAuditEvents(t *testing.T) {
	ctx := t.Context()
	cp, err := Start(ctx, Options{AuditUsers: []string{"alice"}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = cp.Stop() })
	cfg, err := cp.UserConfig("alice", "system:masters")
	require.NoError(t, err)
	alice := kubernetes.NewForConfigOrDie(cfg)
	cfg, err = cp.UserConfig("alice")
	require.NoError(t, err)
	noRights := kubernetes.NewForConfigOrDie(cfg)

	makeNamespace(t, alice, "shop")
	_, err = noRights.CoreV1().Secrets("shop").Get(ctx, "web", metav1.GetOptions{})
	require.True(t, apierrors.IsForbidden(err))
	watch, err := alice.CoreV1().Pods("").Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=web"})
	require.NoError(t, err)
	defer watch.Stop()
	_, err = kubernetes.NewForConfigOrDie(cp.AdminConfig()).CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	require.NoError(t, err)

	var got []string
	require.Eventually(t, func() bool {
		events, err := cp.AuditEvents()
		require.NoError(t, err)
		got = nil
		for _, e := range events {
			require.Equal(t, "alice", e.User.Username)
			got = append(got, fmt.Sprintf("%s %s %s/%s %d", e.Verb, e.Object.Resource, e.Object.Namespace, e.Object.Name, e.Status.Code))
		}
		return len(got) == 3
	}, process.Soon, 20*time.Millisecond, "%q", got)
	require.Equal(t, []string{"create namespaces /shop 201", "get secrets shop/web 403", "watch pods /web 200"}, got)

	unaudited := &ControlPlane{}
	_, err = unaudited.AuditEvents()
	require.ErrorContains(t, err, "AuditUsers is empty")
}
