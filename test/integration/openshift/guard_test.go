package openshift

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/deploy"
	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/integration/harness"
)

const refusal = "OpenShift's service-ca runs in this cluster (Deployment openshift-service-ca/service-ca)"

// serviceCARuns creates the Deployment of service-ca for the time of a test.
func serviceCARuns(t *testing.T) {
	t.Helper()
	err := admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: api.OpenShiftNamespace}})
	if !apierrors.IsAlreadyExists(err) {
		require.NoError(t, err)
	}
	one := int32(1)
	labels := map[string]string{"app": "service-ca"}
	runs := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: api.OpenShiftNamespace, Name: api.OpenShiftDeployment},
		Spec: appsv1.DeploymentSpec{Replicas: &one, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "example.com/x"}}},
		}},
	}
	require.NoError(t, admin.Create(t.Context(), runs))
	t.Cleanup(func() { require.NoError(t, admin.Delete(context.WithoutCancel(t.Context()), runs)) })
}

// command is a program whose end a test waits for.
func command(path string, args ...string) (*exec.Cmd, *harness.Log) {
	log := &harness.Log{}
	cmd := exec.Command(path, append(args, "--health-addr=0")...)
	cmd.Stderr = log
	return cmd, log
}

// Both would write the same Secrets and bundles: none of the programs starts
// where service-ca runs.
func TestNoneStartsBesideServiceCA(t *testing.T) {
	serviceCARuns(t)
	for _, name := range programs {
		p, err := program(t.Context(), name)
		require.NoError(t, err)
		cmd, log := command(p.Path, p.Args...)
		err = cmd.Run()
		var ended *exec.ExitError
		require.ErrorAs(t, err, &ended, "%s", log)
		assert.Equal(t, 1, ended.ExitCode())
		assert.Contains(t, log.String(), refusal, name)
	}
}

// A replica that started before service-ca did, and waited since, does not take the
// lead that its holder released: it ends, and has written nothing. The namespace is another
// than that of the processes that run. One that leads: TestRefusesBesideServiceCA of cmd/rotator.
func TestNoneLeadsBesideServiceCA(t *testing.T) {
	const ns = "guards-the-signer"
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, controlplane.WriteKubeconfig(kubeconfig, plane.AdminConfig()))
	require.NoError(t, admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}))
	lease := heldLease(ns, "servingcert-signer")
	require.NoError(t, admin.Create(t.Context(), lease))
	binary, its := deploy.Program("signer")
	cmd, log := command(filepath.Join(dir, binary), append(its, "--kubeconfig="+kubeconfig, "--namespace="+ns, "--openshift-compat", "--metrics-addr=0")...)
	require.NoError(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	eventually(t, func() error {
		if !strings.Contains(log.String(), "leader lease") { // "attempting to acquire leader lease..."
			return errors.New("does not wait to lead: " + log.String())
		}
		return nil
	})

	serviceCARuns(t)
	lease.Spec.HolderIdentity = new(string)
	require.NoError(t, admin.Update(t.Context(), lease))
	select {
	case err := <-ended:
		require.Error(t, err)
		assert.Equal(t, 1, cmd.ProcessState.ExitCode())
		assert.Contains(t, log.String(), "signer: --openshift-compat: "+refusal)
	case <-time.After(harness.Soon):
		t.Fatalf("it goes on:\n%s", log)
	}
	require.NoError(t, admin.Get(t.Context(), client.ObjectKeyFromObject(lease), lease))
	assert.Empty(t, *lease.Spec.HolderIdentity)
	var written corev1.SecretList
	require.NoError(t, admin.List(t.Context(), &written, client.InNamespace(ns)))
	assert.Empty(t, written.Items)
}

// heldLease is the Lease of a replica that leads, for longer than the test.
func heldLease(namespace, name string) *coordinationv1.Lease {
	holder, seconds, now := "another", int32(3600), metav1.NowMicro()
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, AcquireTime: &now, RenewTime: &now},
	}
}
