package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const installHead = `# servingcert: everything that a cluster needs, in the order in which it is
# applied. Kubernetes 1.30 or newer. Rendered from deploy/chart by "make generate":
# change it there.
#
#   kubectl apply --server-side -f deploy/install.yaml
#
# No step by hand and no second certificate tool: the signer makes its CA, the
# webhook's Service asks for a certificate as any other Service does, and the
# rotator writes the caBundle. Nothing here waits in a circle: the signer starts
# without the webhook, the rotator without both.
---
`

// beside are the manifests that are not in install.yaml: the template of each, and the values with which
// it is rendered.
var beside = []struct {
	path, template string
	values         map[string]any
}{
	{"deploy/podmonitors.yaml", "podmonitors", map[string]any{"monitoring": map[string]any{"podMonitor": map[string]any{"enabled": true}}}},
	{"deploy/policies/backend-tls-policies.yaml", "backend-tls-policies", map[string]any{"trust": map[string]any{"backendTLSPolicies": true}}},
	{"deploy/policies/egress.yaml", "networkpolicies-egress", map[string]any{"networkPolicies": map[string]any{"egress": map[string]any{"enabled": true}}}},
	{"deploy/policies/ca-issuer.yaml", "ca-issuer", map[string]any{"caIssuer": map[string]any{"issuer": "ClusterIssuer/example", "roots": "servingcert-issuer-roots"}}},
	{"deploy/policies/identities.yaml", "identities", map[string]any{"identities": map[string]any{"trustDomain": "cluster.example.com"}}},
	{"deploy/policies/kubelet-serving.yaml", "kubelet-serving", map[string]any{"kubeletServing": map[string]any{"approve": true, "nodeCIDRs": []any{"192.0.2.0/24"}}}},
	{"deploy/policies/permissions.yaml", "policy-permissions", map[string]any{"policies": map[string]any{"permissions": map[string]any{"enabled": true}}}},
}

// generated returns all generated files, by their paths in the repository.
func generated(root string) (map[string][]byte, error) {
	files, err := copies(root)
	if err != nil {
		return nil, err
	}
	values, err := os.ReadFile(filepath.Join(root, chartDir, "values.yaml"))
	if err != nil {
		return nil, err
	}
	tree, err := parseValues(values)
	if err != nil {
		return nil, fmt.Errorf("%s/values.yaml: %w", chartDir, err)
	}
	if files[chartDir+"/values.schema.json"], err = schemaFile(tree); err != nil {
		return nil, err
	}
	files["docs/chart.md"] = page(tree)

	c, err := load(filepath.Join(root, chartDir))
	if err != nil {
		return nil, err
	}
	// The new copies, not the existing files.
	c.Schema = files[chartDir+"/values.schema.json"]
	if err := manifests(c, files); err != nil {
		return nil, err
	}
	return files, overlays(root, c, files)
}

// copies returns the chart's copies of files, as Helm cannot read files outside of the chart.
func copies(root string) (map[string][]byte, error) {
	files := map[string][]byte{}
	alerts, err := os.ReadFile(filepath.Join(root, "deploy/alerts.yaml"))
	if err != nil {
		return nil, err
	}
	files[chartDir+"/files/alerts.yaml"] = append([]byte("# A copy of deploy/alerts.yaml.\n"), alerts...)
	dashboards, err := filepath.Glob(filepath.Join(root, "deploy/dashboards/*.json"))
	if err != nil {
		return nil, err
	}
	for _, path := range dashboards {
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		files[chartDir+"/dashboards/"+filepath.Base(path)] = content
	}
	return files, nil
}

// manifests adds install.yaml and the other manifests.
func manifests(c chart, files map[string][]byte) error {
	r, err := c.render(defaultNamespace, nil)
	if err != nil {
		return err
	}
	install, err := r.text(r.names()...)
	if err != nil {
		return err
	}
	files["deploy/install.yaml"] = []byte(installHead + install)
	for _, m := range beside {
		r, err := c.render(defaultNamespace, m.values)
		if err != nil {
			return err
		}
		text, err := r.text(m.template)
		if err != nil {
			return err
		}
		files[m.path] = []byte(strings.TrimPrefix(text, "---\n"))
	}
	return nil
}
