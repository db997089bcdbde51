package trust

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

// rootBundle returns a bundle of one CA certificate that is valid from an hour
// before noon.
func rootBundle(t *testing.T, notAfter time.Time) pki.Bundle {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	require.NoError(t, err)
	root, err := pki.NewRoot(key, 1, api.DefaultLimits().Constraints(), noon.Add(-time.Hour), notAfter)
	require.NoError(t, err)
	return pki.NewBundle(root)
}

func join(bundles ...pki.Bundle) pki.Bundle {
	var all pki.Bundle
	for _, b := range bundles {
		all = pki.NewBundle(slices.Concat(all.Certificates(), b.Certificates())...)
	}
	return all
}

func TestReadSource(t *testing.T) {
	long, short, over := rootBundle(t, noon.Add(48*time.Hour)), rootBundle(t, noon.Add(time.Hour)), rootBundle(t, noon.Add(-time.Second))
	pem := func(bundles ...pki.Bundle) string {
		out := ""
		for _, b := range bundles {
			out += string(b.PEM()) + "\n"
		}
		return out
	}
	tests := []struct {
		name  string
		data  string
		want  pki.Bundle
		until time.Time
	}{
		{"one", pem(long), long, noon.Add(48 * time.Hour)},
		{"two", pem(long, short), join(long, short), noon.Add(time.Hour)},
		{"any order, twice", pem(short, long, short), join(long, short), noon.Add(time.Hour)},
		{"one has expired", pem(over, long), long, noon.Add(48 * time.Hour)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			source := &corev1.ConfigMap{Data: map[string]string{api.BundleKey: tt.data}}
			got, err := ReadSource(source, noon)
			require.NoError(t, err)
			assert.Equal(t, Bundle{PEM: tt.want.PEM(), Hash: tt.want.Hash(), Until: tt.until, roots: tt.want}, got)

			whole, err := pki.ParseBundle([]byte(tt.data)) // of which the signer says the hash
			require.NoError(t, err)
			source.Data[api.CABundleHash] = whole.Hash()
			again, err := ReadSource(source, noon)
			require.NoError(t, err)
			assert.Equal(t, got, again)
		})
	}
}

// The source is parsed again when it changes, or when a certificate of it expires.
func TestSources(t *testing.T) {
	long, short := rootBundle(t, noon.Add(48*time.Hour)), rootBundle(t, noon.Add(time.Hour))
	interim := rootBundle(t, noon.Add(24*time.Hour))
	source := func(uid types.UID, version string, bundle pki.Bundle) *corev1.ConfigMap {
		return &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{UID: uid, ResourceVersion: version},
			Data:       map[string]string{api.BundleKey: string(bundle.PEM()), api.CAOwnBundle: string(interim.PEM())},
		}
	}
	var s Sources
	reads := func(cm *corev1.ConfigMap, own bool, now time.Time) Bundle {
		want, wantErr := ReadSource(cm, now)
		if own {
			want, wantErr = ReadOwnSource(cm, now)
		}
		got, err := s.Read(cm, own, now)
		require.NotNil(t, got.made)
		want.made = got.made
		assert.Equal(t, want, got)
		assert.Equal(t, wantErr, err)
		return got
	}
	both := source("u", "1", join(long, short))
	first := reads(both, false, noon)
	again := reads(both, false, noon.Add(time.Hour))
	assert.Same(t, &first.PEM[0], &again.PEM[0], "it is not parsed again")
	assert.NotEqual(t, first.Hash, reads(both, true, noon).Hash, "the other one of the same source")
	assert.Equal(t, long.Hash(), reads(both, false, noon.Add(time.Hour+time.Nanosecond)).Hash, "one has expired")
	assert.Equal(t, first.Hash, reads(both, false, noon).Hash, "the clock was set back")
	assert.Equal(t, short.Hash(), reads(source("u", "2", short), false, noon).Hash, "it was changed")
	assert.Equal(t, long.Hash(), reads(source("v", "2", long), false, noon).Hash, "it was made again")
	_, expired := s.Read(source("v", "3", short), false, noon.Add(2*time.Hour))
	require.ErrorContains(t, expired, "has expired")
	_, still := s.Read(source("v", "3", short), false, noon.Add(3*time.Hour))
	assert.Same(t, expired, still, "it is not parsed again")
	assert.Equal(t, short.Hash(), reads(source("v", "3", short), false, noon).Hash, "what expired is back: the clock was wrong")
	reads(nil, false, noon)
	assert.Equal(t, short.Hash(), reads(source("", "", short), false, noon).Hash, "of no version, it is not remembered")
	assert.Equal(t, long.Hash(), reads(source("", "", long), false, noon).Hash)
}

// BenchmarkReadSource measures the first step of every decision about a target.
func BenchmarkReadSource(b *testing.B) {
	key, err := pki.GenerateKey(pki.ECDSAP256)
	require.NoError(b, err)
	root, err := pki.NewRoot(key, 1, api.DefaultLimits().Constraints(), noon.Add(-time.Hour), noon.Add(time.Hour))
	require.NoError(b, err)
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{UID: "u", ResourceVersion: "1"}, Data: map[string]string{api.BundleKey: string(pki.NewBundle(root).PEM())}}
	b.Run("parsed", func(b *testing.B) {
		for b.Loop() {
			_, _ = ReadSource(cm, noon)
		}
	})
	b.Run("remembered", func(b *testing.B) {
		var s Sources
		for b.Loop() {
			_, _ = s.Read(cm, false, noon)
		}
	})
}

func TestReadSourceRefuses(t *testing.T) {
	over := rootBundle(t, noon.Add(-time.Second))
	tests := []struct {
		name string
		cm   *corev1.ConfigMap
		want string
	}{
		{"missing", nil, "does not exist"},
		{"no data", &corev1.ConfigMap{}, "has no key ca.crt"},
		{"empty", sourceOf(""), "no certificate"},
		{"garbage", sourceOf("garbage"), "not PEM"},
		{"garbage after a certificate", sourceOf(string(rootBundle(t, noon.Add(time.Hour)).PEM()) + "garbage"), "certificate 2: not PEM"},
		{"a root added", &corev1.ConfigMap{Data: map[string]string{
			api.BundleKey:    string(join(rootBundle(t, noon.Add(time.Hour)), rootBundle(t, noon.Add(time.Hour))).PEM()),
			api.CABundleHash: rootBundle(t, noon.Add(time.Hour)).Hash(),
		}}, "key ca.crt does not match the hash in key bundle-hash"},
		{"all expired", sourceOf(string(over.PEM())), "every certificate has expired"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ReadSource(tt.cm, noon)
			assert.ErrorContains(t, err, api.CAStatusName)
			assert.ErrorContains(t, err, tt.want)
			assert.Zero(t, got)
			_, err = ReadOwnSource(tt.cm, noon)
			assert.ErrorContains(t, err, tt.want)
		})
	}
}

func sourceOf(data string) *corev1.ConfigMap {
	return &corev1.ConfigMap{Data: map[string]string{api.BundleKey: data}}
}
