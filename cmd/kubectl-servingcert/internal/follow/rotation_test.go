package follow

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/cluster"
	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/status"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
)

// Rotation waits for events that may never come only as long as DefaultTiming says: for the count of certificates, and
// for the rotator's probes. It does not wait for an overdue restart.
func TestRotationBoundsItsWaits(t *testing.T) {
	leaf := strings.Repeat("ab", 32)
	ready := state.Say(metav1.Condition{Type: api.ConditionReady, Status: metav1.ConditionTrue, Reason: "Issued"}, state.Ready{Secret: "web-tls", Leaf: leaf}).Both()
	stale := state.Say(metav1.Condition{Type: api.ConditionServing, Status: metav1.ConditionFalse, Reason: api.ServingStale, Message: "an older one"}, state.Serving{
		Leaf: leaf, Since: time.Unix(1, 0), Ports: api.NeedsHash(&corev1.Service{}), Stale: []state.StaleWorkload{{Kind: "Deployment", Name: "web", OnRotate: api.OnRotateRestart}},
	}).Both()
	for end, c := range map[string]struct {
		conditions []metav1.Condition
		after      time.Duration
	}{
		"served: unknown: " + status.NotVerified + "\n": {ready, 15*time.Second + 35*time.Second}, // the first poll after 30 s
		"not served: shop/web: an older one\n":          {append(ready, stale...), 15 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Annotations: map[string]string{api.AnnotationSecretName: "web-tls"}}}
			svc.Status.Conditions = c.conditions
			holder, long, now := "pod", int32(3600), metav1.NowMicro()
			rotator := &coordinationv1.Lease{
				ObjectMeta: metav1.ObjectMeta{Namespace: "sys", Name: "servingcert-rotator"},
				Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &long, RenewTime: &now},
			}
			client := fake.NewClientset(svc, rotator,
				&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "sys", Name: api.CAStatusName}, Data: map[string]string{
					api.CAGeneration: "2", api.CAPhase: api.PhaseRetire, api.CARotation: "overlap:drill", api.CALeaves: "40", api.CAReplaced: "38",
				}})
			var out strings.Builder
			w := Watcher{Cluster: &cluster.Cluster{Client: client}, Namespace: "sys", Out: &out, Now: time.Now, Timing: DefaultTiming()}
			begin := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			_, err := w.Rotation(ctx, api.RotateRequest{Mode: api.RotateOverlap, Reason: "drill"}, nil)
			require.NoError(t, err)
			assert.Contains(t, out.String(), "done, except for 2 of 40 certificates: kubectl servingcert status -A lists them\n")
			assert.Contains(t, out.String(), end)
			assert.Equal(t, c.after, time.Since(begin))
		})
	}
}

// TestRotationLeavesOtherIssuersOut: the certificate of a Secret that another issuer writes is not replaced. One that the
// other issuer has not written yet is.
func TestRotationLeavesOtherIssuersOut(t *testing.T) {
	service := func(name, reason, leaf string, annotations map[string]string) *corev1.Service {
		svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Annotations: annotations}}
		svc.Annotations[api.AnnotationSecretName] = name + "-tls"
		svc.Status.Conditions = state.Say(metav1.Condition{Type: api.ConditionReady, Status: metav1.ConditionTrue, Reason: reason}, state.Ready{Secret: name + "-tls", Leaf: leaf, External: reason == api.ReasonExternal}).Both()
		return svc
	}
	external := func() map[string]string { return map[string]string{api.AnnotationIssuer: string(api.IssuerExternal)} }
	before, after := strings.Repeat("ab", 32), strings.Repeat("cd", 32)
	client := fake.NewClientset(
		service("ours", "Issued", after, map[string]string{}),
		service("theirs", api.ReasonExternal, before, external()),
		service("kept", api.ReasonRetained, after, external()),
	)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		var out strings.Builder
		w := Watcher{Cluster: &cluster.Cluster{Client: client}, Out: &out, Now: time.Now, Timing: DefaultTiming()}
		require.NoError(t, w.replaced(ctx, Leaves{"shop/ours": before, "shop/theirs": before, "shop/kept": before}))
		assert.Contains(t, out.String(), "done: a new certificate for each Service that had one (2)")
		u, err := w.uptake(ctx)
		require.NoError(t, err)
		assert.Equal(t, 2, u.Services)
	})
}

// Who may not list pods is told that the clients of an older bundle are unknown.
func TestRotationReportsClientsNotSeen(t *testing.T) {
	trusted := time.Now().Add(-time.Hour)
	ca := api.CAStatus{Generations: []api.CAGenerationRecord{
		{Number: 1, Origin: api.OriginOwn, Root: strings.Repeat("a", 64)},
		{Number: 2, Origin: api.OriginOwn, Root: strings.Repeat("b", 64), TrustedAt: trusted, SignsSince: trusted},
	}}
	client := fake.NewClientset(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "sys", Name: api.CAStatusName}, Data: ca.Data()})
	client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(corev1.Resource("pods"), "", nil)
	})
	var out strings.Builder
	w := Watcher{Cluster: &cluster.Cluster{Client: client}, Namespace: "sys", Out: &out}
	require.NoError(t, w.clients(t.Context()))
	assert.Equal(t, "not seen: clients that may hold an older CA bundle: this user may not list pods in all namespaces\n", out.String())
}
