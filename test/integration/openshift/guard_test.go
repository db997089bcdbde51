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

	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/pkg/api"
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

// Both would write the same Secrets and bundles: none of the programs starts
// where service-ca runs.
func TestNoneStartsBesideServiceCA(t *testing.T) {
	serviceCARuns(t)
	for _, name := range programs {
		flags, err := flagsOf(t.Context(), name)
		require.NoError(t, err)
		cmd, log := command(name, append(flags, "--health-addr=0")...)
		err = cmd.Run()
		var ended *exec.ExitError
		require.ErrorAs(t, err, &ended, "%s", log)
		assert.Equal(t, 1, ended.ExitCode())
		assert.Contains(t, log.String(), refusal, name)
	}
}

// A replica that started before service-ca did, and waited since, does not take the
// lead: it ends, and has written nothing, neither where the Lease is gone nor where its
// holder released it. The namespace is another than that of the processes that run.
func TestNoneLeadsBesideServiceCA(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, controlplane.WriteKubeconfig(kubeconfig, plane.AdminConfig()))
	for name, free := range map[string]func(*coordinationv1.Lease) error{
		"signer": func(lease *coordinationv1.Lease) error { return admin.Delete(t.Context(), lease) },
		"rotator": func(lease *coordinationv1.Lease) error {
			lease.Spec.HolderIdentity = new(string)
			return admin.Update(t.Context(), lease)
		},
	} {
		t.Run(name, func(t *testing.T) {
			ns := "guards-the-" + name
			require.NoError(t, admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}))
			lease := heldLease(ns, "servingcert-"+name)
			require.NoError(t, admin.Create(t.Context(), lease))
			cmd, log := command(name, "--kubeconfig="+kubeconfig, "--namespace="+ns, "--health-addr=0")
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
			require.NoError(t, free(lease))
			select {
			case err := <-ended:
				require.Error(t, err)
				assert.Equal(t, 1, cmd.ProcessState.ExitCode())
				assert.Contains(t, log.String(), name+": --openshift-compat: "+refusal)
			case <-time.After(soon):
				t.Fatalf("it goes on:\n%s", log)
			}
			var after coordinationv1.Lease
			err := admin.Get(t.Context(), client.ObjectKeyFromObject(lease), &after)
			if !apierrors.IsNotFound(err) {
				require.NoError(t, err)
				assert.Empty(t, *after.Spec.HolderIdentity)
			}
			var written corev1.SecretList
			require.NoError(t, admin.List(t.Context(), &written, client.InNamespace(ns)))
			assert.Empty(t, written.Items)
		})
	}
}

// heldLease is the Lease of a replica that leads, for longer than the test.
func heldLease(namespace, name string) *coordinationv1.Lease {
	holder, seconds, now := "another", int32(3600), metav1.NowMicro()
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, AcquireTime: &now, RenewTime: &now},
	}
}
