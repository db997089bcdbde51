//go:build e2e

package node

import (
	"context"
	"encoding/json"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/hack/process"
)

// The tests have their own node, as the default one may be in use.
var (
	testDir    = flag.String("node-dir", "/var/lib/servingcert-node-test", "directory of the node that the tests start and stop")
	testSubnet = flag.String("node-subnet", "10.97.0.0/16", "its subnet")
)

const testTimeout = 3 * time.Minute

func testOptions(t *testing.T) Options {
	return Options{Dir: *testDir, Subnet: *testSubnet, Log: t.Output()}
}

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard()) // errors of clients are returned
	os.Exit(m.Run())
}

// TestLifecycle starts a node, uses it, breaks it in several ways, and checks that nothing remains.
func TestLifecycle(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	o := testOptions(t)
	require.NoError(t, Fetch(ctx, os.Stderr))
	require.NoError(t, Down(ctx, o), "the rest of an earlier run")
	before := look(t)
	require.Empty(t, before.Processes)
	t.Cleanup(func() {
		cleanup, cancel := context.WithTimeout(context.Background(), testTimeout)
		defer cancel()
		assert.NoError(t, Down(cleanup, o))
	})

	started := time.Now()
	n, err := Up(ctx, o)
	require.NoError(t, err)
	t.Logf("up after %.1f s", time.Since(started).Seconds())
	pids, err := n.PIDs()
	require.NoError(t, err)
	require.Len(t, pids, len(Components()))
	require.Equal(t, before.Rules, look(t).Rules, "the machine's rules do not change")
	require.Equal(t, before.Mounts, look(t).Mounts, "and its mounts")
	require.Equal(t, before.Settings, look(t).Settings, "and the kernel's settings")

	t.Run("up again does nothing", func(t *testing.T) {
		again, err := Up(ctx, o)
		require.NoError(t, err)
		require.Equal(t, n.layout, again.layout)
		now, err := again.PIDs()
		require.NoError(t, err)
		require.Equal(t, pids, now)
	})
	t.Run("the subnet has an owner", func(t *testing.T) {
		other := o
		other.Dir += "2"
		_, err := Up(ctx, other)
		require.ErrorContains(t, err, "is used by the node in \""+o.Dir+"\"")
		require.Error(t, Down(ctx, other))
		require.NoDirExists(t, other.Dir)
		now, err := n.PIDs()
		require.NoError(t, err)
		require.Equal(t, pids, now)
	})
	t.Run("a pod runs, is found by name, and survives the control plane", func(t *testing.T) { useNode(ctx, t, n) })
	t.Run("a component died: the node is started again", func(t *testing.T) {
		require.NoError(t, n.Kill(ctx, controlplane.Kubelet))
		_, err := Attach(o.Dir)
		require.ErrorContains(t, err, "is incomplete: kubelet does not run")
		mustUp(ctx, t, o)
	})
	t.Run("all processes killed: the node is started again", func(t *testing.T) {
		for _, found := range processesBelow(t, o.Dir) {
			killProcess(t, found)
		}
		require.EventuallyWithT(t, func(c *assert.CollectT) { require.Empty(c, processesBelow(t, o.Dir)) }, process.Soon, pollInterval)
		mustUp(ctx, t, o)
	})
	t.Run("the state is lost: the node can be stopped", func(t *testing.T) {
		require.NoError(t, os.Remove(filepath.Join(o.Dir, stateFile)))
		require.NoError(t, Down(ctx, o))
		assertAsBefore(t, before)
	})
	t.Run("interrupted start", func(t *testing.T) {
		short, cancel := context.WithTimeout(ctx, 4*time.Second)
		defer cancel()
		_, err := Up(short, o)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Empty(t, processesBelow(t, o.Dir))
		require.DirExists(t, filepath.Join(o.Dir, "logs"), "the logs are kept")
	})
	require.NoError(t, Down(ctx, o))
	assertAsBefore(t, before)
	require.NoError(t, Down(ctx, o), "and once more")
	assertAsBefore(t, before)
}

func mustUp(ctx context.Context, t *testing.T, o Options) {
	t.Helper()
	n, err := Up(ctx, o)
	require.NoError(t, err)
	pids, err := n.PIDs()
	require.NoError(t, err)
	require.Len(t, pids, len(Components()))
}

// killProcess kills a process that processesBelow returned.
func killProcess(t *testing.T, found string) {
	t.Helper()
	var pid int
	require.NoError(t, json.Unmarshal([]byte(strings.Fields(found)[0]), &pid))
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		require.ErrorIs(t, err, syscall.ESRCH) // it died with the holder
	}
}

func assertAsBefore(t *testing.T, before machine) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		after := look(t)
		require.Subset(c, before.Dirs, after.Dirs) // another node may have stopped, and removed shared directories
		after.Dirs = before.Dirs
		require.Equal(c, before, after)
	}, process.Soon, pollInterval)
}

// useNode runs a pod, reads its log, dials it by name, and kills the control plane.
func useNode(ctx context.Context, t *testing.T, n *Node) {
	cfg, err := n.Config()
	require.NoError(t, err)
	client, err := kubernetes.NewForConfig(cfg)
	require.NoError(t, err)
	pods := client.CoreV1().Pods("kube-system")
	dns, err := pods.List(ctx, metav1.ListOptions{LabelSelector: "k8s-app=kube-dns"})
	require.NoError(t, err)
	require.Len(t, dns.Items, 1)
	pod := dns.Items[0].Name

	log, err := pods.GetLogs(pod, &corev1.PodLogOptions{}).Stream(ctx)
	require.NoError(t, err)
	content, err := io.ReadAll(log)
	require.NoError(t, err)
	require.Contains(t, string(content), "CoreDNS-")

	dial := func(address string) error {
		conn, err := n.Dialer().DialContext(ctx, "tcp", address)
		if err == nil {
			err = conn.Close()
		}
		return err
	}
	require.NoError(t, dial("kubernetes.default.svc.cluster.local:443"))
	require.NoError(t, dial("kube-dns.kube-system.svc.cluster.local:9153"))

	for _, component := range Components() {
		require.NoError(t, n.Kill(ctx, component))
		require.NoError(t, dial("kube-dns.kube-system.svc.cluster.local:9153"), "pods keep running without %s", component)
		require.NoError(t, n.Restart(ctx, component))
		require.ErrorContains(t, n.start(ctx, component), "it is already running")
	}
	require.ErrorContains(t, n.Kill(ctx, "kubeadm"), `component "kubeadm": must be one of containerd, etcd,`)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		after, err := pods.Get(ctx, pod, metav1.GetOptions{})
		require.NoError(c, err)
		require.Equal(c, dns.Items[0].UID, after.UID)
		require.Zero(c, after.Status.ContainerStatuses[0].RestartCount)
		require.True(c, after.Status.ContainerStatuses[0].Ready)
	}, startTimeout, time.Second)

	inside, err := n.Command(ctx, "iptables-save")
	require.NoError(t, err)
	rules, err := inside.Output()
	require.NoError(t, err)
	require.Contains(t, string(rules), "-A KUBE-SERVICES -d "+n.DNSIP.String()+"/32")
}

// Two nodes are independent, although they share the directories that the first one created on the machine.
func TestTwoNodes(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	first, second := testOptions(t), testOptions(t)
	second.Dir, second.Subnet = second.Dir+"2", "10.96.0.0/16"
	require.NoError(t, Down(ctx, first))
	require.NoError(t, Down(ctx, second))
	before := look(t)
	t.Cleanup(func() {
		cleanup, cancel := context.WithTimeout(context.Background(), testTimeout)
		defer cancel()
		assert.NoError(t, Down(cleanup, first))
		assert.NoError(t, Down(cleanup, second))
	})
	one, err := Up(ctx, first)
	require.NoError(t, err)
	two, err := Up(ctx, second)
	require.NoError(t, err)
	useNode(ctx, t, one)
	require.NoError(t, Down(ctx, first))

	pids, err := running(second.Dir)
	require.NoError(t, err)
	mounts, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pids[holder]), "mounts"))
	require.NoError(t, err)
	for dir := range two.privateDirs() {
		require.Contains(t, string(mounts), " "+dir+" ", "the first node has unmounted it")
	}
	useNode(ctx, t, two)
	require.NoError(t, Down(ctx, second))
	assertAsBefore(t, before)
}
