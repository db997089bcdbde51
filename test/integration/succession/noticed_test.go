package succession

import (
	"crypto/x509"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

// What nobody repeats is noticed all the same: a server's certificate and a client's roots
// that do not fit, and a clock that was moved. Time stands still in between, so that no
// handshake is repeated.
func TestTrafficNoticesEachChange(t *testing.T) {
	t.Parallel()
	ours, theirs := newAuthority(t, "Ours", pki.ECDSAP256, nil), newAuthority(t, "Theirs", pki.ECDSAP256, nil)
	start := time.Now()
	secret := func(version string, by *authority) *corev1.Secret {
		leaf := newAuthority(t, "web-0", pki.ECDSAP256, by, func(c *x509.Certificate) {
			c.DNSNames, c.IsCA, c.KeyUsage, c.NotAfter = []string{"web-0.shop.svc"}, false, x509.KeyUsageDigitalSignature, start.Add(time.Hour)
		})
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: secretOf(0), ResourceVersion: version}, Type: corev1.SecretTypeTLS,
			Data: map[string][]byte{corev1.TLSCertKey: pki.EncodeCertificates(leaf.cert), corev1.TLSPrivateKeyKey: pkcs8(t, leaf.key)},
		}
	}
	bundle := func(of *authority) *corev1.ConfigMap {
		return &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: api.BundleName},
			Data:       map[string]string{api.BundleKey: string(pki.EncodeCertificates(of.cert))},
		}
	}
	for _, tc := range []struct {
		name    string
		change  func(s *scene, moved *atomic.Int64)
		rejects int // of the three clients and two servers
		says    string
	}{
		{"nothing", func(*scene, *atomic.Int64) {}, 0, ""},
		{"a certificate", func(s *scene, _ *atomic.Int64) {
			_, err := s.admin.CoreV1().Secrets("shop").Update(s.Context(), secret("2", theirs), metav1.UpdateOptions{})
			require.NoError(s, err)
		}, 3, "unknown authority"},
		{"roots", func(s *scene, _ *atomic.Int64) {
			_, err := s.admin.CoreV1().ConfigMaps("shop").Update(s.Context(), bundle(theirs), metav1.UpdateOptions{})
			require.NoError(s, err)
		}, 4, "unknown authority"},
		{"the clock", func(_ *scene, moved *atomic.Int64) { moved.Store(int64(2 * time.Hour)) }, 3, "has expired"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := &scene{T: t, admin: fake.NewClientset(secret("1", ours), bundle(ours))}
			var moved atomic.Int64
			tr := startTraffic(s, "shop", 1, func() time.Time { return start.Add(time.Duration(moved.Load())) })
			require.Eventually(t, func() bool { return tr.handshakes.Load() >= 6 }, waitFor, tick, "everybody meets everybody")
			time.Sleep(4 * look) // in which nothing may happen
			tr.requireNoFailure(s)
			require.EqualValues(t, 12, tr.handshakes.Load(), "once more, and not again and again")
			tc.change(s, &moved)
			require.Eventually(t, func() bool {
				tr.mu.Lock()
				defer tr.mu.Unlock()
				return len(tr.failures) >= tc.rejects
			}, waitFor, tick)
			tr.stop()
			require.Len(t, tr.failures, tc.rejects)
			for _, err := range tr.failures {
				require.Contains(t, err.Error(), tc.says)
			}
		})
	}
}
