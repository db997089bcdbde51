//go:build long

package signer

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/bounded"
	"github.com/servingcert/servingcert/test/integration/harness"
	"github.com/servingcert/servingcert/test/rotatortest"
)

// TestManySecretsOfOtherIssuers cost one read of each when the signer starts, and one write of the
// condition, once. The memory that they take is limited. How long they take depends on the machine: what must happen
// soon is that a thousand more are known.
func TestManySecretsOfOtherIssuers(t *testing.T) {
	const n, atOnce = 5000, 8
	d, ns := newDeployment(t), newNamespace(t)
	ca := rotatortest.NewCA(t, 1, time.Now()).Renamed(t)
	data := dataOf(t, ca.Issue(t, time.Now(), "*."+ns+".svc"), ca)
	require.NoError(t, process.Each(t.Context(), n, atOnce, func(ctx context.Context, i int) error {
		svc := harness.Service(ns, fmt.Sprintf("web-%d", i), api.AnnotationIssuer, string(api.IssuerExternal))
		if _, err := admin.CoreV1().Services(ns).Create(ctx, svc, metav1.CreateOptions{}); err != nil {
			return err
		}
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: svc.Name + "-tls"}, Data: data}
		_, err := admin.CoreV1().Secrets(ns).Create(ctx, secret, metav1.CreateOptions{})
		return err
	}))
	host := strings.TrimPrefix(plane.AdminConfig().Host, "https://")
	for start, writes := range []float64{n, 0} {
		begun := time.Now()
		r := startProcess(t, d)
		known := func() (int, error) {
			_, metrics, err := harness.Get(context.Background(), r.metrics)
			return strings.Count(metrics, "\nservingcert_external_certificate_renew_by_timestamp_seconds{"), err
		}
		for many := n / 5; many <= n; many += n / 5 {
			harness.Eventually(t, func() error {
				count, err := known()
				if err == nil && count < many {
					err = fmt.Errorf("%d of %d are known", count, n)
				}
				return err
			})
		}
		harness.Eventually(t, func() error {
			waiting, err := r.sum(`workqueue_depth{controller="signer"`)
			if err == nil && waiting > 0 {
				err = fmt.Errorf("%v wait", waiting)
			}
			return err
		})
		took := time.Since(begun)
		figure := func(prefix string) float64 {
			sum, err := r.sum(prefix)
			require.NoError(t, err)
			return sum
		}
		reads := figure(`rest_client_requests_total{code="200",host="` + host + `",method="GET"}`)
		patches := figure(`rest_client_requests_total{code="200",host="` + host + `",method="PATCH"}`)
		resident := figure("process_resident_memory_bytes ")
		t.Logf("start %d: %d Secrets after %s: %.0f reads, %.0f patches, %.1f MiB resident", start+1, n, took.Round(100*time.Millisecond), reads, patches, resident/(1<<20))
		assert.InDelta(t, n, reads, 100)
		assert.InDelta(t, writes, patches, 100)
		if bounded.RaceFactor == 1 {
			assert.Less(t, resident, float64(180<<20))
		}
		require.NoError(t, r.stop())
	}
}
