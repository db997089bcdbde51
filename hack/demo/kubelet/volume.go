// Package kubelet does for a pod of the demo what a kubelet does, where there is
// no node: it projects volumes into directories and works out how a container is
// started. It does that from the pod as the API server stored it, and fails on
// whatever it does not know instead of leaving it out.
package kubelet

import (
	"context"
	"fmt"
	"io/fs"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// File is one file of a volume.
type File struct {
	Data []byte
	Mode fs.FileMode
	// Group is the pod's fsGroup, or 0: then the file keeps the group of this process.
	Group int
}

// Files returns what the volume is to hold, by path in it. A source that is not
// optional and not there is an error that apierrors.IsNotFound knows: a kubelet
// holds the pod until it is.
func Files(ctx context.Context, r client.Reader, namespace string, volume corev1.Volume) (map[string]File, error) {
	switch source := volume.VolumeSource; {
	case source.Secret != nil:
		s := source.Secret
		return fromSecret(ctx, r, types.NamespacedName{Namespace: namespace, Name: s.SecretName}, s.Items, mode(s.DefaultMode), s.Optional)
	case source.Projected != nil:
		files := map[string]File{}
		for _, p := range source.Projected.Sources {
			part, err := fromProjection(ctx, r, namespace, p, mode(source.Projected.DefaultMode))
			if err != nil {
				return nil, fmt.Errorf("volume %s: %w", volume.Name, err)
			}
			maps.Copy(files, part)
		}
		return files, nil
	}
	return nil, fmt.Errorf("volume %s: only secret and projected volumes are known here", volume.Name)
}

func fromProjection(ctx context.Context, r client.Reader, namespace string, p corev1.VolumeProjection, mode fs.FileMode) (map[string]File, error) {
	switch {
	case p.Secret != nil:
		key := types.NamespacedName{Namespace: namespace, Name: p.Secret.Name}
		return fromSecret(ctx, r, key, p.Secret.Items, mode, p.Secret.Optional)
	case p.ConfigMap != nil:
		key := types.NamespacedName{Namespace: namespace, Name: p.ConfigMap.Name}
		return fromConfigMap(ctx, r, key, p.ConfigMap.Items, mode, p.ConfigMap.Optional)
	}
	return nil, fmt.Errorf("only secret and configMap projections are known here")
}

func fromSecret(ctx context.Context, r client.Reader, key types.NamespacedName, items []corev1.KeyToPath, mode fs.FileMode, optional *bool) (map[string]File, error) {
	var secret corev1.Secret
	if err := r.Get(ctx, key, &secret); err != nil && !(isTrue(optional) && apierrors.IsNotFound(err)) {
		return nil, err
	}
	return pick("Secret "+key.String(), secret.Data, items, mode, isTrue(optional))
}

func fromConfigMap(ctx context.Context, r client.Reader, key types.NamespacedName, items []corev1.KeyToPath, mode fs.FileMode, optional *bool) (map[string]File, error) {
	var cm corev1.ConfigMap
	if err := r.Get(ctx, key, &cm); err != nil && !(isTrue(optional) && apierrors.IsNotFound(err)) {
		return nil, err
	}
	data := maps.Clone(cm.BinaryData)
	if data == nil {
		data = map[string][]byte{}
	}
	for k, v := range cm.Data {
		data[k] = []byte(v)
	}
	return pick("ConfigMap "+key.String(), data, items, mode, isTrue(optional))
}

// pick takes the items from data, or all of it where no items are named.
func pick(from string, data map[string][]byte, items []corev1.KeyToPath, mode fs.FileMode, optional bool) (map[string]File, error) {
	files := map[string]File{}
	if len(items) == 0 {
		for key, content := range data {
			files[key] = File{Data: content, Mode: mode}
		}
		return files, nil
	}
	for _, item := range items {
		content, ok := data[item.Key]
		if !ok && !optional {
			return nil, fmt.Errorf("%s has no key %s", from, item.Key)
		}
		if !ok {
			continue
		}
		file := File{Data: content, Mode: mode}
		if item.Mode != nil {
			file.Mode = fs.FileMode(*item.Mode)
		}
		files[item.Path] = file
	}
	return files, nil
}

// mode returns what the API server fills in where nothing is said.
func mode(m *int32) fs.FileMode {
	if m == nil {
		return fs.FileMode(corev1.SecretVolumeSourceDefaultMode)
	}
	return fs.FileMode(*m)
}

func isTrue(b *bool) bool { return b != nil && *b }

// Mounted is a volume of a pod, and the directory that it is projected into.
type Mounted struct {
	Namespace string
	Volume    corev1.Volume
	Dir       string
}

// Project writes what the volume is to hold, and reports whether that was another content.
func (m Mounted) Project(ctx context.Context, r client.Reader) (changed bool, err error) {
	files, err := Files(ctx, r, m.Namespace, m.Volume)
	if err != nil {
		return false, err
	}
	return Write(m.Dir, files)
}
