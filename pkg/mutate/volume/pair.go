package volume

import (
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/formats"
	"github.com/servingcert/servingcert/pkg/pki"
)

// Pair is where the certificate and its key come from: a Secret, a key that the pod's kubelet
// makes, or a directory of the node. The zero Pair is none.
type Pair struct {
	Secret string
	PodKey *PodKey
	// Host is the directory, whose subdirectory [HostCurrent] has the files. If it is set, the
	// other fields are ignored: a static pod cannot refer to API objects.
	Host string
}

// HostCurrent is the symbolic link to the current files in the directory of a store on a node. A
// volume must be the directory that contains it.
const HostCurrent = "current"

// PodKey describes the key that the kubelet makes.
type PodKey struct {
	Algorithm pki.KeyAlgorithm
	// Lifetime is the longest lifetime of a certificate; zero for Kubernetes' default, 24 h.
	Lifetime time.Duration
}

// In reports whether the sources have the pair from the right place, in files with the
// usual names.
func (p Pair) In(sources []corev1.VolumeProjection) bool {
	return slices.ContainsFunc(sources, func(s corev1.VolumeProjection) bool {
		if p.PodKey != nil {
			c := s.PodCertificate
			return c != nil && c.SignerName == api.SignerName && c.CertificateChainPath == corev1.TLSCertKey && c.KeyPath == corev1.TLSPrivateKeyKey
		}
		return s.Secret != nil && s.Secret.Name == p.Secret && !isTrue(s.Secret.Optional) &&
			projects(s.Secret.Items, corev1.TLSCertKey) && projects(s.Secret.Items, corev1.TLSPrivateKeyKey)
	})
}

// Source returns the source of a volume with the pair, and with the file of a wanted format
// that comes from the same source.
func (p Pair) Source(wanted formats.Set) corev1.VolumeProjection {
	if p.PodKey == nil {
		return secret(p.Secret, nil, corev1.TLSCertKey, corev1.TLSPrivateKeyKey)
	}
	projection := &corev1.PodCertificateProjection{
		SignerName: api.SignerName, KeyType: string(p.PodKey.Algorithm),
		CertificateChainPath: corev1.TLSCertKey, KeyPath: corev1.TLSPrivateKeyKey,
	}
	if p.PodKey.Lifetime > 0 {
		seconds := int32(min(p.PodKey.Lifetime/time.Second, math.MaxInt32))
		projection.MaxExpirationSeconds = &seconds
	}
	for _, name := range (wanted & formats.CredentialBundles()).Files() {
		projection.CredentialBundlePath = name
	}
	return corev1.VolumeProjection{PodCertificate: projection}
}

// projects reports whether the items contain a key as a file of the same name. No items
// means all keys.
func projects(items []corev1.KeyToPath, key string) bool {
	return len(items) == 0 || slices.ContainsFunc(items, func(i corev1.KeyToPath) bool { return i.Key == key && i.Path == key })
}

func secret(name string, optional *bool, keys ...string) corev1.VolumeProjection {
	return corev1.VolumeProjection{Secret: &corev1.SecretProjection{
		LocalObjectReference: corev1.LocalObjectReference{Name: name},
		Items:                items(keys...),
		Optional:             optional,
	}}
}

func items(keys ...string) []corev1.KeyToPath {
	out := make([]corev1.KeyToPath, len(keys))
	for i, k := range keys {
		out[i] = corev1.KeyToPath{Key: k, Path: k}
	}
	return out
}

func optional(b bool) *bool {
	if !b {
		return nil
	}
	return &b
}

func isTrue(b *bool) bool { return b != nil && *b }
