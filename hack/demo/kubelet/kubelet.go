// Package kubelet does the work of a kubelet for a pod without a node: it projects volumes into
// directories and determines how a container is started. It reads the pod as the API server stored
// it, and returns an error for features that it does not support.
package kubelet

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// File is one file of a volume.
type File struct {
	Data  []byte
	Mode  fs.FileMode
	Group int // the pod's fsGroup; 0: the group of this process
}

// Project writes the files of a volume to dir. It returns an error if there are none, or if a required
// source does not exist: a kubelet would not start the pod.
func Project(ctx context.Context, r client.Reader, namespace string, volume corev1.Volume, dir string) error {
	projected := volume.Projected
	if s := volume.Secret; s != nil {
		only := corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: s.SecretName}, Items: s.Items, Optional: s.Optional}
		projected = &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{Secret: &only}}, DefaultMode: s.DefaultMode}
	}
	if projected == nil {
		return fmt.Errorf("volume %s: only secret and projected volumes are supported", volume.Name)
	}
	files := map[string]File{}
	for _, p := range projected.Sources {
		source, data, err := read(ctx, r, namespace, p)
		optional := source.Optional != nil && *source.Optional
		if err != nil && (!optional || !apierrors.IsNotFound(err)) {
			return fmt.Errorf("volume %s: %w", volume.Name, err)
		}
		if len(source.Items) == 0 {
			for key := range data {
				source.Items = append(source.Items, corev1.KeyToPath{Key: key, Path: key})
			}
		}
		for _, item := range source.Items {
			mode := cmp.Or(item.Mode, projected.DefaultMode, new(corev1.ProjectedVolumeSourceDefaultMode))
			if content, ok := data[item.Key]; ok {
				files[item.Path] = File{Data: content, Mode: fs.FileMode(*mode)}
			} else if !optional {
				return fmt.Errorf("volume %s: %s has no key %s", volume.Name, source.Name, item.Key)
			}
		}
	}
	if len(files) == 0 {
		return fmt.Errorf("volume %s has no files yet", volume.Name)
	}
	return Write(dir, files)
}

// read returns a source, with a ConfigMap converted to a Secret, and its data.
func read(ctx context.Context, r client.Reader, namespace string, p corev1.VolumeProjection) (source corev1.SecretProjection, data map[string][]byte, err error) {
	switch {
	case p.Secret != nil:
		var secret corev1.Secret
		err = r.Get(ctx, client.ObjectKey{Namespace: namespace, Name: p.Secret.Name}, &secret)
		return *p.Secret, secret.Data, err
	case p.ConfigMap != nil:
		var m corev1.ConfigMap
		err = r.Get(ctx, client.ObjectKey{Namespace: namespace, Name: p.ConfigMap.Name}, &m)
		data = map[string][]byte{}
		maps.Copy(data, m.BinaryData)
		for key, value := range m.Data {
			data[key] = []byte(value)
		}
		return corev1.SecretProjection(*p.ConfigMap), data, err
	}
	return source, nil, errors.New("only secret and configMap sources are supported")
}

// Write makes dir contain exactly these files, without subdirectories. Like the kubelet's AtomicWriter,
// it replaces a symbolic link, so that a reader sees either all of the old files or all of the new
// ones. It does nothing if no file changed:
//
//	tls.crt -> ..data/tls.crt
//	..data -> ..HASH
func Write(dir string, files map[string]File) error {
	content, err := json.Marshal(files)
	if err != nil {
		return err
	}
	version := fmt.Sprintf("..%.8x", sha256.Sum256(content))
	link, next, data := filepath.Join(dir, "..data"), filepath.Join(dir, "..data_tmp"), filepath.Join(dir, version)
	if current, err := os.Readlink(link); err == nil && current == version {
		return nil
	}
	errs := []error{os.RemoveAll(data), os.MkdirAll(data, 0o755), os.Chmod(data, 0o755)} // independent of the umask
	for name, file := range files {
		path := filepath.Join(data, name)
		errs = append(errs, os.WriteFile(path, file.Data, 0o600), os.Chmod(path, file.Mode.Perm()), os.Chown(path, -1, cmp.Or(file.Group, -1)))
	}
	errs = append(errs, os.RemoveAll(next), os.Symlink(version, next))
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if err := os.Rename(next, link); err != nil {
		return err
	}
	for name := range files {
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)); !errors.Is(err, fs.ErrExist) {
			errs = append(errs, err)
		}
	}
	entries, err := os.ReadDir(dir)
	errs = append(errs, err)
	for _, entry := range entries {
		if _, ok := files[entry.Name()]; !ok && entry.Name() != version && entry.Name() != "..data" {
			errs = append(errs, os.RemoveAll(filepath.Join(dir, entry.Name())))
		}
	}
	return errors.Join(errs...)
}

// Command returns the program, arguments and environment of a container. fields are the values of the
// fieldRefs in its environment, such as status.podIP.
func Command(c corev1.Container, fields map[string]string) (argv, env []string, err error) {
	if len(c.Command) == 0 || len(c.EnvFrom) > 0 {
		return nil, nil, fmt.Errorf("container %s: without command, or with envFrom: not supported", c.Name)
	}
	values := map[string]string{} // in order: a variable may refer to those before it
	for _, e := range c.Env {
		value, ok := expand(e.Value, values), false
		if from := e.ValueFrom; from != nil {
			if from.FieldRef == nil {
				return nil, nil, fmt.Errorf("container %s: env %s: only fieldRefs are supported", c.Name, e.Name)
			}
			if value, ok = fields[from.FieldRef.FieldPath]; !ok {
				return nil, nil, fmt.Errorf("container %s: env %s: field %s is not supported", c.Name, e.Name, from.FieldRef.FieldPath)
			}
		}
		values[e.Name] = value
		env = append(env, e.Name+"="+value)
	}
	for _, arg := range slices.Concat(c.Command, c.Args) {
		argv = append(argv, expand(arg, values))
	}
	return argv, env, nil
}

// reference matches $$ and $(NAME).
var reference = regexp.MustCompile(`\$(\$|\([^)]*\))`)

// expand replaces $(NAME) by its value, and $$ by $. A name without a value is left unchanged.
func expand(s string, values map[string]string) string {
	return reference.ReplaceAllStringFunc(s, func(found string) string {
		if found == "$$" {
			return "$"
		}
		if value, ok := values[found[2:len(found)-1]]; ok {
			return value
		}
		return found
	})
}
