package pods

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/rotatortest"
)

func TestKeysAsText(t *testing.T) {
	for text, key := range map[string]Key{"web-tls": SecretKey("web-tls"), "(pod)": PodKey, "(pod-other)": OtherPodKey, "": {}} {
		assert.Equal(t, text, key.String())
		assert.Equal(t, key, ParseKey(text))
	}
	assert.NotEqual(t, PodKey, SecretKey("(pod)"), "what people write as a name is no key of a pod")
	_, ok := PodKey.Secret()
	assert.False(t, ok)
	_, ok = Key{}.Secret()
	assert.False(t, ok)
}

func TestKeys(t *testing.T) {
	own := func(p *corev1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			Sources: []corev1.VolumeProjection{{PodCertificate: &corev1.PodCertificateProjection{SignerName: api.SignerName}}},
		}}})
	}
	identity := func(p *corev1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			Sources: []corev1.VolumeProjection{{PodCertificate: &corev1.PodCertificateProjection{SignerName: api.ClientSignerName, KeyPath: "tls.key", CertificateChainPath: "tls.crt"}}},
		}}})
	}
	web, zero := rotatortest.SecretVolume("web-tls"), rotatortest.SecretVolume("0-tls")
	for _, tt := range []struct {
		name    string
		volumes []rotatortest.Change
		keys    []Key
		secrets []string
	}{
		{"none", nil, []Key{}, nil},
		{"of Secrets", []rotatortest.Change{web, zero}, []Key{SecretKey("0-tls"), SecretKey("web-tls")}, []string{"0-tls", "web-tls"}},
		{"its own", []rotatortest.Change{own}, []Key{PodKey}, []string{}},
		{"an identity, which is not served", []rotatortest.Change{identity}, []Key{}, nil},
		{"both", []rotatortest.Change{web, own, zero}, []Key{PodKey, SecretKey("0-tls"), SecretKey("web-tls")}, []string{"0-tls", "web-tls"}},
		{"a name that poses as its own", []rotatortest.Change{rotatortest.SecretVolume("(pod)")}, []Key{}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := FactsOf(rotatortest.Pod(rotatortest.All(tt.volumes...)))
			assert.Equal(t, tt.keys, f.Keys())
			assert.Equal(t, tt.secrets, f.Secrets())
			for _, key := range []Key{PodKey, SecretKey("web-tls"), SecretKey("(pod)")} {
				has := false
				for _, k := range tt.keys {
					has = has || k == key
				}
				assert.Equal(t, has, f.Template.Value().Mounts(key), "%v", key)
			}
			assert.Equal(t, f.Template.Value().Mounts(PodKey), f.HasPodKey())
		})
	}
}
