package volume

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/formats"
)

// TestPaths: each kind of file is in the volume, also where it is the only one, in an order
// that is always the same.
func TestPaths(t *testing.T) {
	const annotation = "metadata.annotations['file.servingcert.dev/"
	for name, tc := range map[string]struct {
		files Files
		want  []projected
	}{
		"nothing":  {Files{}, nil},
		"combined": {Files{Formats: formats.Of(&formats.Combined)}, []projected{{path: api.CombinedKey, key: api.CombinedKey}}},
		"files": {Files{Files: map[string]string{"b.key": "tls.key", "a.crt": "tls.crt", "c": "ca.crt"}}, []projected{
			{path: "a.crt", key: "tls.crt"}, {path: "b.key", key: "tls.key"}, {path: "c", key: "ca.crt"},
		}},
		"config": {Files{Config: map[string]string{"b.yml": "x", "a.yml": "y", "c.yml": "z"}}, []projected{
			{path: "a.yml", annotation: annotation + "a.yml']"}, {path: "b.yml", annotation: annotation + "b.yml']"}, {path: "c.yml", annotation: annotation + "c.yml']"},
		}},
	} {
		assert.Equal(t, tc.want, tc.files.paths(), name)
	}
}

// A volume that the user wrote is used if it has each file of the identity, for this trust domain.
func TestWhichVolumeHasTheIdentity(t *testing.T) {
	find := func(change func(sources []corev1.VolumeProjection) []corev1.VolumeProjection) bool {
		sources := change(IdentityFolder("example.com"))
		v := corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: sources}}}
		name, found := FindIdentity(&corev1.Pod{Spec: corev1.PodSpec{Volumes: []corev1.Volume{{Name: "other"}, v}}}, "example.com")
		assert.Equal(t, found, name == "v")
		return found
	}
	type projections = []corev1.VolumeProjection
	assert.True(t, find(func(s projections) projections { return s }))
	other, short := "example.com/other", int32(3600)
	assert.True(t, find(func(s projections) projections {
		s[0].PodCertificate.MaxExpirationSeconds = &short
		return projections{s[1], s[0]}
	}), "what does not matter")
	for what, change := range map[string]func(s projections) projections{
		"no roots":                func(s projections) projections { return s[:1] },
		"no certificate":          func(s projections) projections { return s[1:] },
		"of another signer":       func(s projections) projections { s[0].PodCertificate.SignerName = other; return s },
		"no key":                  func(s projections) projections { s[0].PodCertificate.KeyPath = ""; return s },
		"no chain":                func(s projections) projections { s[0].PodCertificate.CertificateChainPath = "x"; return s },
		"the proxy's":             func(s projections) projections { s[0].PodCertificate.CredentialBundlePath = "identity.pem"; return s },
		"roots of another signer": func(s projections) projections { s[1].ClusterTrustBundle.SignerName = &other; return s },
		"by name":                 func(s projections) projections { s[1].ClusterTrustBundle.SignerName = nil; return s },
		"another trust domain": func(s projections) projections {
			s[1].ClusterTrustBundle.Path = IdentityFolder("other.com")[1].ClusterTrustBundle.Path
			return s
		},
	} {
		assert.False(t, find(change), what)
	}
}

// A volume that the user wrote is used if it has the bundle from either object, but from no
// other.
func TestWhichSourcesHaveTheBundle(t *testing.T) {
	ours, other, signer, otherSigner := api.TrustBundleName, "example.com:signer:ca", api.SignerName, "example.com/signer"
	all, some := &metav1.LabelSelector{}, &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
	for _, tt := range []struct {
		name   string
		source corev1.VolumeProjection
		want   bool
	}{
		{"the ClusterTrustBundle", corev1.VolumeProjection{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{Name: &ours, Path: "ca.crt"}}, true},
		{"another", corev1.VolumeProjection{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{Name: &other, Path: "ca.crt"}}, false},
		{"all of the signer", corev1.VolumeProjection{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{SignerName: &signer, LabelSelector: all, Path: "ca.crt"}}, true},
		{"all of another", corev1.VolumeProjection{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{SignerName: &otherSigner, LabelSelector: all, Path: "ca.crt"}}, false},
		{"some of the signer", corev1.VolumeProjection{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{SignerName: &signer, LabelSelector: some, Path: "ca.crt"}}, false},
		{"without a selector, none", corev1.VolumeProjection{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{SignerName: &signer, Path: "ca.crt"}}, false},
		{"another file of all", corev1.VolumeProjection{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{SignerName: &signer, LabelSelector: all, Path: "ca.pem"}}, false},
		{"another file", corev1.VolumeProjection{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{Name: &ours, Path: "ca.pem"}}, false},
		{"the ConfigMap", bundle("ca.crt", false, true), true},
		{"another file of it", bundle("ca.pem", false, true), false},
		{"nothing", corev1.VolumeProjection{}, false},
	} {
		assert.Equal(t, tt.want, hasBundle(tt.source, "ca.crt"), tt.name)
	}
	assert.True(t, hasBundle(bundle("ca.pem", false, false), "ca.pem"))
	assert.True(t, hasBundle(bundle("ca.pem", true, false), "ca.pem"))
}
