package admission

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// appendVolume appends a volume. encoding/json would look for all the thirty sources that
// a volume can have, and one from several sources is all that is injected.
func appendVolume(dst []byte, v corev1.Volume) ([]byte, error) {
	p := v.Projected
	if p == nil || v.VolumeSource != (corev1.VolumeSource{Projected: p}) || p.DefaultUser != nil {
		return appendAny(dst, v)
	}
	dst = appendText(append(dst, `{"name":`...), v.Name)
	dst, err := appendEach(append(dst, `,"projected":{"sources":`...), p.Sources, appendSource)
	if p.DefaultMode != nil {
		dst = strconv.AppendInt(append(dst, `,"defaultMode":`...), int64(*p.DefaultMode), 10)
	}
	return append(dst, "}}"...), err
}

// appendSource appends a source of a projected volume.
func appendSource(dst []byte, s corev1.VolumeProjection) ([]byte, error) {
	switch secret, cm := s.Secret, s.ConfigMap; {
	case secret != nil && secret.Name != "" && s == (corev1.VolumeProjection{Secret: secret}):
		return appendKeys(append(dst, `{"secret":`...), secret.Name, secret.Items, secret.Optional)
	case cm != nil && cm.Name != "" && s == (corev1.VolumeProjection{ConfigMap: cm}):
		return appendKeys(append(dst, `{"configMap":`...), cm.Name, cm.Items, cm.Optional)
	}
	return appendAny(dst, s)
}

// appendKeys appends which keys of a Secret or of a ConfigMap are projected, and the end of
// the source.
func appendKeys(dst []byte, name string, items []corev1.KeyToPath, optional *bool) (_ []byte, err error) {
	dst = appendText(append(dst, `{"name":`...), name)
	if len(items) > 0 {
		dst, err = appendEach(append(dst, `,"items":`...), items, appendItem)
	}
	if optional != nil {
		dst = strconv.AppendBool(append(dst, `,"optional":`...), *optional)
	}
	return append(dst, "}}"...), err
}

// appendItem appends a key and its path.
func appendItem(dst []byte, k corev1.KeyToPath) ([]byte, error) {
	if k != (corev1.KeyToPath{Key: k.Key, Path: k.Path}) {
		return appendAny(dst, k)
	}
	dst = appendText(append(dst, `{"key":`...), k.Key)
	return append(appendText(append(dst, `,"path":`...), k.Path), '}'), nil
}

// appendMount appends where a container mounts a volume.
func appendMount(dst []byte, m corev1.VolumeMount) ([]byte, error) {
	if m.RecursiveReadOnly != nil || m.SubPath+m.SubPathExpr != "" || m.MountPropagation != nil || len(m.BindMountOptions) > 0 {
		return appendAny(dst, m)
	}
	dst = appendText(append(dst, `{"name":`...), m.Name)
	if m.ReadOnly {
		dst = append(dst, `,"readOnly":true`...)
	}
	return append(appendText(append(dst, `,"mountPath":`...), m.MountPath), '}'), nil
}
