//go:build long

package app

import (
	"context"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/servingcert/servingcert/cmd/internal/process"
	"github.com/servingcert/servingcert/deploy"
	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// programs are the programs that this executable can run as.
var programs = harness.Programs{"rotator": Main}

func TestMain(m *testing.M) { programs.Main(m) }

// Both would overwrite the same fields endlessly, each with its own CA. The check only has the
// permissions of install.yaml.
func TestRefusesBesideServiceCA(t *testing.T) {
	cluster, err := controlplane.Start(t.Context(), controlplane.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Stop()) })
	admin, err := client.New(cluster.AdminConfig(), client.Options{})
	require.NoError(t, err)
	require.NoError(t, deploy.Apply(t.Context(), admin, "test"))
	account, err := cluster.ServiceAccountConfig(t.Context(), api.DefaultNamespace, "servingcert-rotator")
	require.NoError(t, err)
	rotators, err := client.New(account, client.Options{})
	require.NoError(t, err)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, controlplane.WriteKubeconfig(kubeconfig, account))

	check := func() error { return process.RefuseBesideServiceCA(t.Context(), rotators) }
	scale := func(namespace, name string, replicas *int32) {
		deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		if err := admin.Get(t.Context(), client.ObjectKeyFromObject(deployment), deployment); err == nil {
			deployment.Spec.Replicas = replicas
			require.NoError(t, admin.Update(t.Context(), deployment))
			return
		}
		require.NoError(t, admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
		labels := map[string]string{"app": name}
		deployment.Spec = appsv1.DeploymentSpec{
			Replicas: replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
			},
		}
		require.NoError(t, admin.Create(t.Context(), deployment))
	}
	zero := new(int32)

	require.NoError(t, check(), "a cluster without service-ca")
	ended := leads(t, account)
	scale(api.OpenShiftNamespace, api.OpenShiftDeployment, nil)
	require.ErrorContains(t, check(), "(Deployment openshift-service-ca/service-ca)")
	leaderEnds(t, admin, ended)

	// In a process of its own: it sets the loggers that the control plane here uses.
	refused := exec.Command(programs.Path(t, "rotator"), "--openshift-compat", "--kubeconfig="+kubeconfig, "--metrics-addr=0", "--health-addr=0")
	out, err := refused.CombinedOutput()
	require.Error(t, err)
	assert.Equal(t, process.ExitError, refused.ProcessState.ExitCode())
	assert.Contains(t, string(out), "rotator: --openshift-compat: OpenShift's service-ca runs in this cluster (Deployment openshift-service-ca/service-ca)")

	scale(api.OpenShiftNamespace, api.OpenShiftDeployment, zero)
	require.NoError(t, check(), "it does not run")
	scale(api.OpenShiftOperatorNamespace, api.OpenShiftOperatorDeployment, nil)
	require.ErrorContains(t, check(), "(Deployment openshift-service-ca-operator/service-ca-operator)")
	scale(api.OpenShiftOperatorNamespace, api.OpenShiftOperatorDeployment, zero)
	require.NoError(t, check())

	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "servingcert-rotator"}}
	require.NoError(t, admin.Delete(t.Context(), role))
	require.Eventually(t, func() bool { return check() != nil }, harness.Soon, 50*time.Millisecond)
	require.ErrorContains(t, check(), "cannot determine whether OpenShift's service-ca runs in this cluster: read Deployment openshift-service-ca/service-ca: ")

	gone, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, process.RefuseBesideServiceCA(gone, rotators))
}

// leads returns once a manager leads, which checks at each renewal of its Lease; the channel gets
// what its Start returns.
func leads(t *testing.T, cfg *rest.Config) <-chan error {
	t.Helper()
	mgr, err := process.NewManagerLooking(t.Context(), cfg, manager.Options{
		Logger: harness.Logger(t), Metrics: ctrlmetricsserver.Options{BindAddress: "0"},
		LeaderElection: true, LeaderElectionNamespace: api.DefaultNamespace, LeaderElectionID: "servingcert-rotator", LeaderElectionReleaseOnCancel: true,
	}, true, 0)
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(t.Context()) }()
	select {
	case <-mgr.Elected():
	case err := <-ended:
		require.NoError(t, err)
	case <-time.After(harness.Soon):
		require.Fail(t, "no replica leads")
	}
	return ended
}

// leaderEnds asserts that a manager that leads ends because of service-ca, with an event on its
// Lease, which it releases.
func leaderEnds(t *testing.T, admin client.Client, ended <-chan error) {
	t.Helper()
	const refusal = "--openshift-compat: OpenShift's service-ca runs in this cluster (Deployment openshift-service-ca/service-ca)"
	select {
	case err := <-ended:
		require.ErrorContains(t, err, refusal)
	case <-time.After(harness.Soon):
		require.Fail(t, "the manager continues")
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: api.DefaultNamespace, Name: "servingcert-rotator"}}
	require.NoError(t, admin.Get(t.Context(), client.ObjectKeyFromObject(lease), lease))
	assert.Empty(t, *lease.Spec.HolderIdentity, "the Lease is released")
	var events eventsv1.EventList
	require.NoError(t, admin.List(t.Context(), &events, client.InNamespace(api.DefaultNamespace)))
	var notes []string
	for i := range events.Items {
		if e := &events.Items[i]; e.Reason == process.EventServiceCARuns && e.Regarding.Kind == "Lease" {
			notes = append(notes, e.Note)
		}
	}
	require.Len(t, notes, 1)
	assert.Contains(t, notes[0], "this process stops: "+refusal)
}
