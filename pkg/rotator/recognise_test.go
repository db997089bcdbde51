package rotator

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/servingcert/servingcert/pkg/pki"
)

func TestRecognise(t *testing.T) {
	now := time.Now()
	ca, other := newCA(t, 1, now), newCA(t, 2, now)
	outside := other.renamed(t)
	names := []string{"web.shop.svc", "api.shop.svc"}
	tests := []struct {
		name   string
		ca     testCA
		issued time.Time
		names  []string
		bundle []testCA
		want   bool
	}{
		{"ours", ca, now, []string{"web.shop.svc"}, []testCA{ca}, true},
		{"ours, of the other Service", ca, now, []string{"x.shop.svc", "api.shop.svc"}, []testCA{ca}, true},
		{"ours, expired", ca, now.Add(-50 * time.Hour), []string{"web.shop.svc"}, []testCA{ca}, true},
		{"ours, of a CA that no bundle has any more", ca, now, []string{"web.shop.svc"}, []testCA{other}, true},
		{"ours, and there is no bundle", ca, now, []string{"web.shop.svc"}, nil, true},
		{"another Service's", ca, now, []string{"db.shop.svc"}, []testCA{ca}, false},
		{"of the same name elsewhere", ca, now, []string{"web.other.svc"}, []testCA{ca}, false},
		{"the pods' names of a headless Service", ca, now, []string{"*.web.shop.svc"}, []testCA{ca}, false},
		{"of a CA with a name of its own", outside, now, []string{"web.shop.svc"}, []testCA{ca, outside}, true},
		{"of a CA with a name of its own, expired", outside, now.Add(-50 * time.Hour), []string{"web.shop.svc"}, []testCA{ca, outside}, false}, // before its CA: nobody's
		{"of a CA with a name of its own, another Service's", outside, now, []string{"db.shop.svc"}, []testCA{ca, outside}, false},
		{"of a stranger with the Service's name", outside, now, []string{"web.shop.svc"}, []testCA{ca}, false},
		{"of a stranger", outside, now, []string{"web.example.com"}, []testCA{ca}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var roots []testCA
			bundle := pki.Bundle{}
			for _, b := range tt.bundle {
				roots = append(roots, b)
				bundle = pki.NewBundle(append(bundle.Certificates(), b.root)...)
			}
			assert.Len(t, bundle.Certificates(), len(roots))
			assert.Equal(t, tt.want, recognise(tt.ca.issue(t, tt.issued, tt.names...).Leaf, nil, bundle, names))
		})
	}
}

func TestOurCAsAreCalledThat(t *testing.T) {
	assert.Regexp(t, ourCA, newCA(t, 12, time.Now()).root.Subject.CommonName)
	for _, name := range []string{"servingcert CA", "servingcert CA 1", "my servingcert CA 1 0a0b0c0d", "servingcert CA 1 0a0b0c0d0e"} {
		assert.NotRegexp(t, ourCA, name)
	}
}
