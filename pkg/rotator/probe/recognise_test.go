package probe

import (
	"crypto/rand"
	"crypto/x509"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/rotatortest"
)

func TestRecognise(t *testing.T) {
	now := time.Now()
	ca, other := rotatortest.NewCA(t, 1, now), rotatortest.NewCA(t, 2, now)
	outside := other.Renamed(t)
	names := []string{"web.shop.svc", "api.shop.svc"}
	tests := []struct {
		name   string
		ca     rotatortest.CA
		issued time.Time
		names  []string
		bundle []rotatortest.CA
		want   bool
	}{
		{"ours", ca, now, []string{"web.shop.svc"}, []rotatortest.CA{ca}, true},
		{"ours, of the other Service", ca, now, []string{"x.shop.svc", "api.shop.svc"}, []rotatortest.CA{ca}, true},
		{"ours, expired", ca, now.Add(-50 * time.Hour), []string{"web.shop.svc"}, []rotatortest.CA{ca}, true},
		{"ours, of a CA that is in no bundle", ca, now, []string{"web.shop.svc"}, []rotatortest.CA{other}, true},
		{"ours, and there is no bundle", ca, now, []string{"web.shop.svc"}, nil, true},
		{"another Service's", ca, now, []string{"db.shop.svc"}, []rotatortest.CA{ca}, false},
		{"of the same name in another namespace", ca, now, []string{"web.other.svc"}, []rotatortest.CA{ca}, false},
		{"the pods' names of a headless Service", ca, now, []string{"*.web.shop.svc"}, []rotatortest.CA{ca}, false},
		{"of a CA with a name of its own", outside, now, []string{"web.shop.svc"}, []rotatortest.CA{ca, outside}, true},
		{"of a CA with a name of its own, expired", outside, now.Add(-50 * time.Hour), []string{"web.shop.svc"}, []rotatortest.CA{ca, outside}, false}, // before its CA: nobody's
		{"of a CA with a name of its own, another Service's", outside, now, []string{"db.shop.svc"}, []rotatortest.CA{ca, outside}, false},
		{"of a foreign CA with the Service's name", outside, now, []string{"web.shop.svc"}, []rotatortest.CA{ca}, false},
		{"of a foreign CA", outside, now, []string{"web.example.com"}, []rotatortest.CA{ca}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var roots []rotatortest.CA
			bundle := pki.Bundle{}
			for _, b := range tt.bundle {
				roots = append(roots, b)
				bundle = pki.NewBundle(append(bundle.Certificates(), b.Root)...)
			}
			assert.Len(t, bundle.Certificates(), len(roots))
			assert.Equal(t, tt.want, recognise(tt.ca.Issue(t, tt.issued, tt.names...).Leaf, nil, bundle, names))
		})
	}
}

func TestHostileCertificatesAreNotRecognised(t *testing.T) {
	now := time.Now()
	ca := rotatortest.NewCA(t, 1, now)
	names := []string{"web.shop.svc"}
	for i := 1; i < api.MaxNames; i++ {
		names = append(names, fmt.Sprintf("n%d.shop.svc", i))
	}
	bundle := pki.NewBundle(ca.Root)
	assert.True(t, recognise(ca.Issue(t, now, names...).Leaf, nil, bundle, names[:1]))
	assert.False(t, recognise(ca.Issue(t, now, append(names, "x.shop.svc")...).Leaf, nil, bundle, names[:1]), "more names than the signer gives")
	large := ca.Issue(t, now, "web.shop.svc").Leaf
	large.Raw = make([]byte, pki.MaxCertificate+1)
	assert.False(t, recognise(large, nil, bundle, names[:1]), "larger than the signer makes it")
}

// The leaf only verifies through an intermediate certificate behind others.
func TestLongChainIsCutOff(t *testing.T) {
	const most = 4
	now := time.Now()
	root := rotatortest.NewCA(t, 1, now).Renamed(t)
	intermediate := rotatortest.NewCA(t, 2, now).Renamed(t)
	template := *intermediate.Root
	template.Subject.CommonName, template.RawSubject, template.Issuer = "Intermediate", nil, root.Root.Subject
	template.SubjectKeyId, template.AuthorityKeyId = []byte{1}, nil
	upper := *root.Root
	upper.MaxPathLen, upper.MaxPathLenZero = -1, false
	der, err := x509.CreateCertificate(rand.Reader, &template, &upper, intermediate.Key.Public(), root.Key)
	require.NoError(t, err)
	signed, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	leaf := rotatortest.CA{Root: signed, Key: intermediate.Key}.Issue(t, now, "web.shop.svc").Leaf
	filler := rotatortest.NewCA(t, 3, now).Root
	at := func(place int) bool {
		chain := slices.Repeat([]*x509.Certificate{filler}, 20)
		chain[place] = signed
		return recognise(leaf, chain, pki.NewBundle(root.Root), []string{"web.shop.svc"})
	}
	trust := Trust{Bundle: pki.NewBundle(root.Root)}
	podKey := func(place int) bool {
		chain := slices.Repeat([]*x509.Certificate{filler}, 20)
		chain[place] = signed
		return PodKeyRequirements{}.check(8443, leaf, chain, trust, now).Verifies
	}
	for name, at := range map[string]func(int) bool{"of a Secret": at, "of a pod's own key": podKey} {
		assert.True(t, at(0), name)
		assert.True(t, at(most-1), name)
		assert.False(t, at(most), name)
	}
}
