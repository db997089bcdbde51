package hostfiles

import (
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// ManifestAnnotation is changed in the manifest of a static pod, so that the kubelet restarts the pod. Its value
// names the content and the attempt.
const ManifestAnnotation = "servingcert.dev/host-content"

// Annotate returns the manifest of a pod with ManifestAnnotation set to value, and all other lines unchanged.
// The value must not need quotes.
func Annotate(manifest []byte, value string) ([]byte, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(manifest, &document); err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if len(document.Content) == 0 {
		return nil, errors.New("is empty: must be the manifest of a Pod")
	}
	root := document.Content[0]
	if kind := field(root, "kind"); kind == nil || kind.Value != "Pod" {
		return nil, errors.New("must be the manifest of a Pod")
	}
	metadata := field(root, "metadata")
	if metadata == nil || metadata.Kind != yaml.MappingNode || metadata.Style&yaml.FlowStyle != 0 || len(metadata.Content) == 0 {
		return nil, errors.New("metadata: must be a mapping in block style, with a field on each line")
	}
	lines := strings.SplitAfter(string(manifest), "\n")
	annotations := field(metadata, "annotations")
	switch {
	case annotations == nil:
		first := metadata.Content[0]
		indent := strings.Repeat(" ", first.Column-1)
		text := fmt.Sprintf("%sannotations:\n%s  %s: %q\n", indent, indent, ManifestAnnotation, value)
		lines = insert(lines, first.Line-1, text)
	case annotations.Kind != yaml.MappingNode || annotations.Style&yaml.FlowStyle != 0 || len(annotations.Content) == 0:
		return nil, errors.New("metadata.annotations: must be a mapping in block style, with a field on each line")
	default:
		first := annotations.Content[0]
		text := fmt.Sprintf("%s%s: %q\n", strings.Repeat(" ", first.Column-1), ManifestAnnotation, value)
		if old := field(annotations, ManifestAnnotation); old != nil {
			lines[old.Line-1] = text
		} else {
			lines = insert(lines, first.Line-1, text)
		}
	}
	edited := []byte(strings.Join(lines, ""))
	return edited, check(edited, value)
}

// check returns an error unless the edited manifest is a pod with the annotation.
func check(edited []byte, value string) error {
	var pod struct {
		Kind     string
		Metadata struct{ Annotations map[string]string }
	}
	if err := yaml.Unmarshal(edited, &pod); err != nil || pod.Kind != "Pod" || pod.Metadata.Annotations[ManifestAnnotation] != value {
		return errors.New("metadata: cannot be edited in this form: write it in block style, with a field on each line")
	}
	return nil
}

func insert(lines []string, at int, text string) []string {
	return append(append(append([]string{}, lines[:at]...), text), lines[at:]...)
}

// field returns the value of the first key of that name in a mapping, or nil.
func field(n *yaml.Node, key string) *yaml.Node {
	if n.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == key {
				return n.Content[i+1]
			}
		}
	}
	return nil
}
