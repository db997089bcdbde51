package probe

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

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
		{"ours, of a CA that no bundle has any more", ca, now, []string{"web.shop.svc"}, []rotatortest.CA{other}, true},
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

func TestOurCAsAreCalledThat(t *testing.T) {
	assert.Regexp(t, ourCA, rotatortest.NewCA(t, 12, time.Now()).Root.Subject.CommonName)
	for _, name := range []string{"servingcert CA", "servingcert CA 1", "my servingcert CA 1 0a0b0c0d", "servingcert CA 1 0a0b0c0d0e"} {
		assert.NotRegexp(t, ourCA, name)
	}
}
