package succession

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/ca"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer/cfssl"
	"github.com/servingcert/servingcert/pkg/signer/issue"
)

// imported is a signer whose first CA is the one that is brought, without an API
// server.
func imported(t *testing.T, secret map[string][]byte, now time.Time) *pki.Authority {
	t.Helper()
	brought, err := ca.ParseImport(secret)
	require.NoError(t, err)
	limits := api.DefaultLimits()
	s := ca.Situation{
		Parameters: ca.Parameters{MaxDuration: limits.MaxDuration, Constraints: limits.Constraints(), Domain: limits.ClusterDomain}.WithDefaults(),
		Import:     &brought, Now: now,
	}
	state, data, err := ca.Decide(s).Apply(s)
	require.NoError(t, err)
	require.Equal(t, ca.OriginImport, state.Generations[0].Origin)
	s.Secret = data
	return ca.Decide(s).Authority
}

// A CA with a key of each algorithm signs for leaves of each.
func TestImportWithKeysOfEachAlgorithm(t *testing.T) {
	t.Parallel()
	sign, err := cfssl.NewLocal()
	require.NoError(t, err)
	for _, of := range pki.KeyAlgorithms() {
		root := newAuthority(t, "Example Root", of, nil)
		authority := imported(t, root.forImport(t, pkcs8), time.Now())
		for _, algorithm := range []pki.KeyAlgorithm{pki.ECDSAP256, pki.Ed25519, pki.RSA2048} {
			wanted := api.Wanted{DNSNames: []string{"web.shop.svc"}, Params: api.Params{KeyAlgorithm: algorithm, Duration: time.Hour}}
			issued, err := issue.Issue(t.Context(), sign, authority, wanted, time.Now())
			require.NoError(t, err, "%s by %s", algorithm, of)
			assert.NoError(t, issued.Leaf.CheckSignatureFrom(root.cert))
		}
	}
}
