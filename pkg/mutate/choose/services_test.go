package choose

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate/volume"
	"github.com/servingcert/servingcert/pkg/pki"
)

// The volume requests the Service's settings, within what the API server accepts.
func TestWhatThePodAsksItsKubeletFor(t *testing.T) {
	for _, tt := range []struct {
		duration, algorithm string
		want                volume.PodKey
	}{
		{"", "", volume.PodKey{Algorithm: pki.ECDSAP256}},
		{"12h", "ED25519", volume.PodKey{Algorithm: pki.Ed25519, Lifetime: 12 * time.Hour}},
		{"59m", "", volume.PodKey{Algorithm: pki.ECDSAP256, Lifetime: time.Hour}},
		{"1h", "RSA4096", volume.PodKey{Algorithm: pki.RSA4096, Lifetime: time.Hour}},
		{"2184h", "", volume.PodKey{Algorithm: pki.ECDSAP256, Lifetime: 91 * 24 * time.Hour}},
		{"2185h", "", volume.PodKey{Algorithm: pki.ECDSAP256, Lifetime: 91 * 24 * time.Hour}},
		{"12h", "RSA2048", volume.PodKey{Algorithm: pki.ECDSAP256}},
		{"a day", "ED25519", volume.PodKey{Algorithm: pki.ECDSAP256}},
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
