package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"gomodules.xyz/jsonpatch/v2"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

const (
	kustomizeDir = "deploy/kustomize"
	platformsDir = chartDir + "/platforms"
)

// kustomization is the content of a kustomization.yaml.
type kustomization struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Resources  []string `json:"resources"`
	Patches    []patch  `json:"patches,omitempty"`
}

type patch struct {
	Target target `json:"target"`
	Patch  string `json:"patch"`
}

type target struct {
	Group     string `json:"group,omitempty"`
	Version   string `json:"version"`
	Kind      string `json:"kind"`
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"`
}

// overlays adds the base, one file for each template, and an overlay for each file of values in the
// chart's directory platforms. base and overlay give the same objects as Helm with these values.
func overlays(root string, c chart, files map[string][]byte) error {
	base, err := c.render(defaultNamespace, nil)
	if err != nil {
		return err
	}
	k := newKustomization()
	for _, name := range base.names() {
		k.Resources = append(k.Resources, name+".yaml")
		files[kustomizeDir+"/base/"+name+".yaml"] = []byte(base[name])
	}
	if err := k.write("The manifests of deploy/install.yaml, one file for each template of the chart.", kustomizeDir+"/base", files); err != nil {
		return err
	}
	platforms, err := filepath.Glob(filepath.Join(root, platformsDir, "*.yaml"))
	if err != nil {
		return err
	}
	for _, path := range platforms {
		name := strings.TrimSuffix(filepath.Base(path), ".yaml")
		if err := overlay(name, path, c, base, files); err != nil {
			return fmt.Errorf("overlay %s: %w", name, err)
		}
	}
	return nil
}

func newKustomization() kustomization {
	return kustomization{APIVersion: "kustomize.config.k8s.io/v1beta1", Kind: "Kustomization"}
}

// write adds the kustomization to files.
func (k kustomization) write(about, dir string, files map[string][]byte) error {
	content, err := yaml.Marshal(k)
	if err != nil {
		return err
	}
	head := fmt.Sprintf("# %s\n# Rendered from deploy/chart by \"make generate\": change it there.\n", about)
	files[dir+"/kustomization.yaml"] = append([]byte(head), content...)
	return nil
}

func overlay(name, valuesPath string, c chart, base rendered, files map[string][]byte) error {
	data, err := os.ReadFile(valuesPath)
	if err != nil {
		return err
	}
	var values map[string]any
	if err := yaml.UnmarshalStrict(data, &values); err != nil {
		return err
	}
	variant, err := c.render(defaultNamespace, values)
	if err != nil {
		return err
	}
	before, err := base.objects()
	if err != nil {
		return err
	}
	after, err := variant.objects()
	if err != nil {
		return err
	}
	dir := kustomizeDir + "/overlays/" + name
	k := newKustomization()
	k.Resources = []string{"../../base"}
	added := added(before, after)
	if len(added) > 0 {
		k.Resources = append(k.Resources, "added.yaml")
		if files[dir+"/added.yaml"], err = encode(added); err != nil {
			return err
		}
	}
	if k.Patches, err = patches(before, after); err != nil {
		return err
	}
	return k.write(fmt.Sprintf("What Helm renders with deploy/chart/platforms/%s.yaml.", name), dir, files)
}

// id identifies an object in its cluster.
func id(o *unstructured.Unstructured) target {
	gvk := o.GroupVersionKind()
	return target{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind, Name: o.GetName(), Namespace: o.GetNamespace()}
}

func find(objects []*unstructured.Unstructured, t target) *unstructured.Unstructured {
	i := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool { return id(o) == t })
	if i < 0 {
		return nil
	}
	return objects[i]
}

// added returns the objects that are only in after.
func added(before, after []*unstructured.Unstructured) []*unstructured.Unstructured {
	var added []*unstructured.Unstructured
	for _, o := range after {
		if find(before, id(o)) == nil {
			added = append(added, o)
		}
	}
	return added
}

// patches returns the patches from before to after, without added objects.
func patches(before, after []*unstructured.Unstructured) ([]patch, error) {
	var patches []patch
	for _, old := range before {
		t := id(old)
		changed := find(after, t)
		if changed == nil {
			gone := map[string]any{"$patch": "delete", "apiVersion": old.GetAPIVersion(), "kind": t.Kind, "metadata": map[string]any{"name": t.Name}}
			text, err := yaml.Marshal(gone)
			if err != nil {
				return nil, err
			}
			patches = append(patches, patch{Target: t, Patch: string(text)})
			continue
		}
		if reflect.DeepEqual(old.Object, changed.Object) {
			continue
		}
		text, err := difference(old, changed)
		if err != nil {
			return nil, err
		}
		patches = append(patches, patch{Target: t, Patch: text})
	}
	return patches, nil
}

var lastIndex = regexp.MustCompile(`/\d+$`)

// difference returns a JSON patch (RFC 6902) in YAML. It is deterministic.
func difference(before, after *unstructured.Unstructured) (string, error) {
	old, err := json.Marshal(before.Object)
	if err != nil {
		return "", err
	}
	changed, err := json.Marshal(after.Object)
	if err != nil {
		return "", err
	}
	operations, err := jsonpatch.CreatePatch(old, changed)
	if err != nil {
		return "", err
	}
	// The library iterates over maps. Operations on one list keep their order.
	slices.SortStableFunc(operations, func(a, b jsonpatch.Operation) int {
		return strings.Compare(lastIndex.ReplaceAllString(a.Path, ""), lastIndex.ReplaceAllString(b.Path, ""))
	})
	text, err := yaml.Marshal(operations)
	return string(text), err
}

// encode writes a manifest.
func encode(objects []*unstructured.Unstructured) ([]byte, error) {
	var documents [][]byte
	for _, o := range objects {
		document, err := yaml.Marshal(o.Object)
		if err != nil {
			return nil, err
		}
		documents = append(documents, document)
	}
	return bytes.Join(documents, []byte("---\n")), nil
}
