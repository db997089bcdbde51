package probe

import (
	"crypto/x509"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/rotatortest"
)

// TestAnswerHasWhatWasSentWithALeafOfTheSecret, and of no other, whose chain a server chooses.
func TestAnswerHasWhatWasSentWithALeafOfTheSecret(t *testing.T) {
	now := time.Now()
	ca := rotatortest.NewCA(t, 1, now).Renamed(t)
	leaf, sent := ca.Issue(t, now, "web.shop.svc").Leaf, ca.Issue(t, now, "ca.shop.svc").Leaf
	for name, leaves := range map[string][]string{"known": {"x", pki.Fingerprint(leaf)}, "unknown": {"x"}} {
		got := Target{Leaves: leaves}.Answer(8443, now, Outcome{Kind: TLS, Chain: []*x509.Certificate{leaf, ca.Root, sent}}, Trust{})
		want := ""
		if name == "known" {
			want = pki.Links([]*x509.Certificate{sent}, now)
			assert.NotEmpty(t, want)
		}
		assert.Equal(t, want, got.Links, name)
	}
}
