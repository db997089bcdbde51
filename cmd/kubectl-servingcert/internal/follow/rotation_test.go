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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/cluster"
	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/judge"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
)

// What may never come is waited for as long as DefaultTiming says: that more certificates are counted, and that
// somebody looks at what pods serve, or restarts what is held.
func TestWhatMayNeverCome(t *testing.T) {
	leaf := strings.Repeat("ab", 32)
	held := api.StaleWorkload{
		Namespace: "shop", Kind: "Deployment", Name: "web", Secret: "web-tls", Leaf: leaf, Since: time.Unix(0, 0), Pods: 1,
		OnRotate: api.OnRotateRestart, Held: &api.RestartHold{Reason: "Paused", Message: "it is paused"},
	}
	ready := state.Say(metav1.Condition{Type: api.ConditionReady, Status: metav1.ConditionTrue, Reason: "Issued"}, state.Ready{Secret: "web-tls", Leaf: leaf}).Both()
	stale := state.Say(metav1.Condition{Type: api.ConditionServing, Status: metav1.ConditionFalse, Reason: api.ServingStale, Message: "an older one"}, state.Serving{Leaf: leaf, Since: time.Unix(0, 0)}).Both()
	for end, conditions := range map[string][]metav1.Condition{
		"served: unknown: " + judge.NotVerified + "\n":                 ready,
		"not served: shop Deployment/web held: Paused: it is paused\n": append(ready, stale...),
	} {
		synctest.Test(t, func(t *testing.T) {
			status, err := api.NewServingStatus([]api.StaleWorkload{held})
			require.NoError(t, err)
			report, err := status.Data()
			require.NoError(t, err)
			svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Annotations: map[string]string{api.AnnotationSecretName: "web-tls"}}}
			svc.Status.Conditions = conditions
			holder, long, now := "pod", int32(3600), metav1.NowMicro()
			rotator := &coordinationv1.Lease{
				ObjectMeta: metav1.ObjectMeta{Namespace: "sys", Name: "servingcert-rotator"},
				Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &long, RenewTime: &now},
			}
			client := fake.NewClientset(svc, rotator,
				&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "sys", Name: api.ServingStatusName}, Data: report},
				&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "sys", Name: api.CAStatusName}, Data: map[string]string{
					api.CAGeneration: "2", api.CAPhase: api.PhaseRetire, api.CARotation: "overlap:drill", api.CALeaves: "40", api.CAReplaced: "38",
				}})
			var out strings.Builder
			w := Watcher{Cluster: &cluster.Cluster{Client: client}, Namespace: "sys", Out: &out, Now: time.Now, Timing: DefaultTiming()}
			begin := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			_, err = w.Rotation(ctx, api.RotateRequest{Mode: api.RotateOverlap, Reason: "drill"}, nil)
			require.NoError(t, err)
			assert.Contains(t, out.String(), "done, except for 2 of 40 certificates: kubectl servingcert status -A lists them\n")
			assert.Contains(t, out.String(), end)
			assert.Equal(t, (15+35)*time.Second, time.Since(begin), "the first look after 30 s is that after 35 s")
		})
	}
}
