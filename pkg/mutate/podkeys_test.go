package mutate

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

// withPodKeys returns what is known, with Services whose pods make their keys.
func withPodKeys(known Known) Known {
	services := known.Services
	known.Services = nil
	for _, svc := range services {
		svc = svc.DeepCopy()
		if _, asks := api.Wants(svc); asks && svc.Annotations != nil {
			svc.Annotations[api.AnnotationKeySource] = string(api.KeySourcePod)
		}
		known.Services = append(known.Services, svc)
	}
	return known
}

// withoutPair returns the pod as YAML without what differs by where its key is made.
func withoutPair(t *testing.T, pod *corev1.Pod) string {
	t.Helper()
	delete(pod.Annotations, api.AnnotationStatus)
	for _, v := range pod.Spec.Volumes {
		if v.Projected == nil {
			continue
		}
		v.Projected.Sources = slices.DeleteFunc(v.Projected.Sources, func(s corev1.VolumeProjection) bool {
			return s.PodCertificate != nil || s.Secret != nil && s.Secret.Optional == nil
		})
	}
	out, err := yaml.Marshal(pod)
	require.NoError(t, err)
	return string(out)
}

// notSwitched are the goldens in which more than the source of the pair changes with
// the annotation, and why.
var notSwitched = map[string]string{
	"trap04-volume-there":           "the volume that is there is of the Secret",
	"trap08-sidecar-added-later":    "so is the one of the first pass",
	"trap09-impossible-secret-name": "no Secret, no name of one",
}

// TestAPodIsTheSameWhereverItsKeyIsMade: switching is one annotation. Of every golden, the
// traps among them, the containers, their flags, variables, mounts and probes are the same
// with a Secret and with a key of the pod's own.
func TestAPodIsTheSameWhereverItsKeyIsMade(t *testing.T) {
	switched := 0
	for _, in := range goldens(t) {
		name := strings.TrimSuffix(filepath.Base(in), ".in.yaml")
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(in)
			require.NoError(t, err)
			s := readScene(t, data)
			before := pass(t, decodePod(t, s.pod), s.known)
			after := pass(t, decodePod(t, s.pod), withPodKeys(s.known))
			_, report, err := Mutate(decodePod(t, s.pod), withPodKeys(s.known))
			if err != nil || !report.PodKey || !report.Injected() {
				return
			}
			if why, differs := notSwitched[name]; differs {
				assert.NotEqual(t, withoutPair(t, before), withoutPair(t, after), why)
				return
			}
			assert.Equal(t, withoutPair(t, before), withoutPair(t, after))
			switched++
		})
	}
	assert.Greater(t, switched, 60)
}

// The volume asks for what the Service says, within what the API server accepts of a pod.
func TestWhatThePodAsksItsKubeletFor(t *testing.T) {
	for _, tt := range []struct {
		duration, algorithm string
		want                PodKey
	}{
		{"", "", PodKey{Algorithm: pki.ECDSAP256}},
		{"12h", "ED25519", PodKey{pki.Ed25519, 12 * time.Hour}},
		{"59m", "", PodKey{pki.ECDSAP256, time.Hour}},
		{"1h", "RSA4096", PodKey{pki.RSA4096, time.Hour}},
		{"2184h", "", PodKey{pki.ECDSAP256, 91 * 24 * time.Hour}},
		{"2185h", "", PodKey{pki.ECDSAP256, 91 * 24 * time.Hour}},
		{"12h", "RSA2048", PodKey{Algorithm: pki.ECDSAP256}},
		{"a day", "ED25519", PodKey{Algorithm: pki.ECDSAP256}},
	} {
		svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Annotations: map[string]string{api.AnnotationKeySource: "pod"}}}
		svc.Spec.Selector = map[string]string{"app": "web"}
		for key, value := range map[string]string{api.AnnotationDuration: tt.duration, api.AnnotationKeyAlgorithm: tt.algorithm} {
			if value != "" {
				svc.Annotations[key] = value
			}
		}
		assert.Equal(t, &tt.want, podKeyOf(svc), "%s %s", tt.duration, tt.algorithm)
	}
}

// A volume that the user wrote counts if it has the bundle from either object, and from no
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
		{"the ConfigMap", Choice{}.bundle("ca.crt", true), true},
		{"another file of it", Choice{}.bundle("ca.pem", true), false},
		{"nothing", corev1.VolumeProjection{}, false},
	} {
		assert.Equal(t, tt.want, hasBundle(tt.source, "ca.crt"), tt.name)
	}
	assert.True(t, hasBundle(Choice{}.bundle("ca.pem", false), "ca.pem"))
	assert.True(t, hasBundle(Choice{trustBundle: true}.bundle("ca.pem", false), "ca.pem"))
}
