package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

const (
	chartDir         = "deploy/chart"
	defaultNamespace = "servingcert-system"
)

// chart is the chart as Helm reads it.
type chart struct{ *chartv2.Chart }

// rendered is the output of the templates, by their file names without ".yaml". It lacks templates
// without output.
type rendered map[string]string

// load reads a chart from its directory.
func load(dir string) (chart, error) {
	c, err := loader.LoadDir(dir)
	if err != nil {
		return chart{}, fmt.Errorf("load %s: %w", dir, err)
	}
	return chart{c}, nil
}

// notes is the template of the notes that Helm prints after an installation.
const notes = "NOTES.txt"

// render renders the chart for a new installation in a namespace. Values that the schema does not allow
// are an error.
func (c chart) render(namespace string, values map[string]any) (rendered, error) {
	texts, err := c.texts(namespace, values)
	if err != nil {
		return nil, err
	}
	out := rendered{}
	for file, text := range texts {
		name, isManifest := strings.CutSuffix(path.Base(file), ".yaml")
		if text = tidy(text); isManifest && text != "" {
			out[name] = text
		}
	}
	return out, nil
}

// texts returns the output of the templates, by their paths.
func (c chart) texts(namespace string, values map[string]any) (map[string]string, error) {
	release := common.ReleaseOptions{Name: "servingcert", Namespace: namespace, Revision: 1, IsInstall: true}
	all, err := util.ToRenderValues(c.Chart, values, release, common.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	return engine.Render(c.Chart, all)
}

var blankLines = regexp.MustCompile(`\n([ \t]*\n)+`)

// tidy removes empty lines and empty documents, which conditions leave. An output that only has comments
// becomes empty.
func tidy(text string) string {
	text = blankLines.ReplaceAllString("\n"+text, "\n")
	var documents []string
	for _, document := range strings.Split(text, "\n---\n") {
		document = strings.Trim(document, "\n")
		document = strings.TrimSuffix(document, "\n---")
		if document != "" && document != "---" {
			documents = append(documents, document)
		}
	}
	text = strings.Join(documents, "\n---\n")
	if !regexp.MustCompile(`(?m)^kind:`).MatchString(text) {
		return ""
	}
	return text + "\n"
}

// order is the order of templates in install.yaml. Others come last.
var order = []string{
	"namespace", "resourcequota", "serviceaccounts",
	"rbac-signer", "rbac-trust", "rbac-rotator", "rbac-webhook", "rbac-metrics", "rbac-view",
	"policy-signer-secrets", "policy-signer-status",
	"policy-rotator-configmaps", "policy-rotator-apiservices", "policy-rotator-crds", "policy-rotator-status",
	"policy-rotator-workloads", "policy-whole-pods", "policy-rotator-pods",
	"signer", "rotator", "webhook", "webhookconfiguration",
	"policy-conditions", "policy-annotations", "policy-target-annotations", "policy-unknown-annotations",
	"networkpolicies",
}

// names returns the templates with output, in the order in which they are applied.
func (r rendered) names() []string {
	place := func(name string) int {
		if i := slices.Index(order, name); i >= 0 {
			return i
		}
		return len(order)
	}
	return slices.SortedFunc(maps.Keys(r), func(a, b string) int {
		if d := place(a) - place(b); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
}

// text returns the output of these templates as one manifest.
func (r rendered) text(names ...string) (string, error) {
	var texts []string
	for _, name := range names {
		text, found := r[name]
		if !found {
			return "", fmt.Errorf("template %s.yaml has no output", name)
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, "---\n"), nil
}

// objects returns all objects, in the order of names.
func (r rendered) objects() ([]*unstructured.Unstructured, error) {
	text, err := r.text(r.names()...)
	if err != nil {
		return nil, err
	}
	return decode([]byte(text))
}

// decode returns the objects of a manifest. A duplicate key in a mapping is an error.
func decode(manifest []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(manifest)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		var content map[string]any
		if err := yaml.UnmarshalStrict(document, &content); err != nil {
			return nil, fmt.Errorf("%w in\n%s", err, document)
		}
		if len(content) > 0 {
			objects = append(objects, &unstructured.Unstructured{Object: content})
		}
	}
}
