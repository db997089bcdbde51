package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/strvals"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/jsonpath"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

func loaded(t *testing.T) chart {
	t.Helper()
	c, err := load(filepath.Join(repository, chartDir))
	require.NoError(t, err)
	return c
}

// values parses values of helm's --set, in one or several lines.
func values(t *testing.T, set string) map[string]any {
	t.Helper()
	values := map[string]any{}
	for line := range strings.Lines(set) {
		require.NoError(t, strvals.ParseInto(strings.TrimSpace(line), values))
	}
	return values
}

func platform(t *testing.T, name string) map[string]any {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(repository, platformsDir, name+".yaml"))
	require.NoError(t, err)
	var values map[string]any
	require.NoError(t, yaml.UnmarshalStrict(data, &values))
	return values
}

var platforms = []string{"gke-quota", "host-network", "openshift", "openshift-compat"}

// objects renders the chart, and decodes each object strictly.
func objects(t *testing.T, namespace string, values map[string]any) []*unstructured.Unstructured {
	t.Helper()
	r, err := loaded(t).render(namespace, values)
	require.NoError(t, err)
	objects, err := r.objects()
	require.NoError(t, err)
	strict := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	for _, o := range objects {
		if o.GroupVersionKind().Group == "monitoring.coreos.com" {
			continue // kinds without Go types here
		}
		data, err := o.MarshalJSON()
		require.NoError(t, err)
		_, _, err = strict.Decode(data, nil, nil)
		require.NoError(t, err, "%s %s", o.GetKind(), o.GetName())
	}
	return objects
}

func TestGeneratedFilesAreUpToDate(t *testing.T) {
	files, err := generated(repository)
	require.NoError(t, err)
	assert.NoError(t, check(repository, files))
}

// Changed and added files are found, and written again.
func TestCheckFindsChanges(t *testing.T) {
	root := t.TempDir()
	files := map[string][]byte{"deploy/install.yaml": []byte("a"), "deploy/kustomize/base/b.yaml": []byte("b")}
	require.ErrorContains(t, check(root, files), "deploy/install.yaml, deploy/kustomize/base/b.yaml")
	require.NoError(t, write(root, files))
	require.NoError(t, check(root, files))
	require.NoError(t, os.WriteFile(filepath.Join(root, "deploy/install.yaml"), []byte("changed"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(root, "deploy/kustomize/base/stale.yaml"), nil, 0o600))
	require.ErrorContains(t, check(root, files), "deploy/install.yaml, deploy/kustomize/base/stale.yaml")
	require.NoError(t, write(root, files))
	assert.NoError(t, check(root, files))
}

func TestLint(t *testing.T) {
	all := map[string]map[string]any{"defaults": nil}
	for _, name := range platforms {
		all[name] = platform(t, name)
	}
	for name, values := range all {
		t.Run(name, func(t *testing.T) {
			linter := lint.RunAll(filepath.Join(repository, chartDir), values, defaultNamespace)
			for _, m := range linter.Messages {
				if !strings.Contains(m.Err.Error(), "icon is recommended") {
					t.Error(m)
				}
			}
		})
	}
}

// order names all templates.
func TestOrderNamesTemplates(t *testing.T) {
	for _, name := range order {
		assert.FileExists(t, filepath.Join(repository, chartDir, "templates", name+".yaml"))
	}
}

// The output of kustomize build for an overlay equals that of Helm for the same platform.
func TestOverlays(t *testing.T) {
	overlays, err := os.ReadDir(filepath.Join(repository, kustomizeDir, "overlays"))
	require.NoError(t, err)
	assert.Len(t, overlays, len(platforms))
	for _, name := range platforms {
		t.Run(name, func(t *testing.T) {
			want := objects(t, defaultNamespace, platform(t, name))
			got := built(t, "overlays/"+name)
			assertSame(t, want, got)
		})
	}
	assertSame(t, objects(t, defaultNamespace, nil), built(t, "base"))
}

func built(t *testing.T, dir string) []*unstructured.Unstructured {
	t.Helper()
	result, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), filepath.Join(repository, kustomizeDir, dir))
	require.NoError(t, err)
	text, err := result.AsYaml()
	require.NoError(t, err)
	objects, err := decode(text)
	require.NoError(t, err)
	return objects
}

func assertSame(t *testing.T, want, got []*unstructured.Unstructured) {
	t.Helper()
	assert.Len(t, got, len(want))
	for _, w := range want {
		if g := find(got, id(w)); assert.NotNil(t, g, "%v", id(w)) {
			assert.Equal(t, w.Object, g.Object)
		}
	}
}

// Patches can add and delete lists and objects.
func TestPatchesOfAnObjectThatGoes(t *testing.T) {
	before := objects(t, defaultNamespace, nil)
	after := objects(t, defaultNamespace, values(t, "networkPolicies.enabled=false"))
	patches, err := patches(before, after)
	require.NoError(t, err)
	require.Len(t, patches, 4)
	assert.Contains(t, patches[0].Patch, "$patch: delete")
}

// The schema rejects wrong values, and names the key.
func TestSchemaRejects(t *testing.T) {
	for set, want := range map[string]string{
		"replicas=3":                                     "replicas",
		"signer.replica=3":                               "replica",
		"signer.replicas=-1":                             "minimum",
		"webhook.timeoutSeconds=60":                      "maximum",
		"webhook.failurePolicy=Maybe":                    "failurePolicy",
		"webhook.port=443":                               "port",
		"ca.duration=3y":                                 "duration",
		"certificates.defaultDuration=720":               "defaultDuration",
		"trust.targets={Secret}":                         "targets",
		"signer.image.digest=sha256:abc":                 "digest",
		"image.pullSecrets={registry}":                   "pullSecrets",
		"remoteCA.urls={http://ca.example.com}":          "urls",
		"caIssuer.issuer=vault":                          "issuer",
		"certificates.permitDNSSuffixes={example.com}":   "permitDNSSuffixes",
		"signer.extraArgs={-v}":                          "extraArgs",
		"namespace.name=Has_Capitals":                    "name",
		"networkPolicies.egress.apiServerPorts={443x}":   "apiServerPorts",
		"policies.annotations.action=Refuse":             "action",
		"monitoring.prometheusRule.runbookURL=wiki/page": "runbookURL",
	} {
		t.Run(set, func(t *testing.T) {
			_, err := loaded(t).render(defaultNamespace, values(t, set))
			assert.ErrorContains(t, err, want)
		})
	}
}

// at returns the value at a path of kubectl's -o jsonpath.
func at(t *testing.T, o *unstructured.Unstructured, path string) string {
	t.Helper()
	p := jsonpath.New(path).AllowMissingKeys(true)
	require.NoError(t, p.Parse("{"+path+"}"))
	var out bytes.Buffer
	require.NoError(t, p.Execute(&out, o.Object))
	return out.String()
}

// named finds an object by "KIND NAME".
func named(objects []*unstructured.Unstructured, name string) *unstructured.Unstructured {
	i := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind()+" "+o.GetName() == name })
	if i < 0 {
		return nil
	}
	return objects[i]
}

func TestValues(t *testing.T) {
	defaults := objects(t, defaultNamespace, nil)
	for _, row := range rows() {
		t.Run(row.set, func(t *testing.T) {
			o := named(objects(t, defaultNamespace, values(t, row.set)), row.object)
			if row.path == gone {
				assert.Nil(t, o, row.object)
				return
			}
			require.NotNil(t, o, row.object)
			assert.Contains(t, at(t, o, row.path), row.want)
			// Without the value, the object differs.
			without := named(defaults, row.object)
			assert.False(t, without != nil && fmt.Sprint(without.Object) == fmt.Sprint(o.Object), "the value has no effect")
		})
	}
}

// Helm reads numbers as float64; they are not rendered in scientific notation.
func TestLargeNumbers(t *testing.T) {
	var fromFile map[string]any
	require.NoError(t, yaml.Unmarshal([]byte("limits: {namespaceReissueBurst: 1000000}\nresourceQuota: {enabled: true, pods: 1000000}\nkubeAPIQPS: 1000000\n"), &fromFile))
	all := objects(t, defaultNamespace, fromFile)
	given := at(t, named(all, "Deployment servingcert-signer"), args)
	assert.Contains(t, given, "--namespace-reissue-burst=1000000")
	assert.Contains(t, given, "--kube-api-qps=1000000")
	assert.Equal(t, "1000000", at(t, named(all, "ResourceQuota servingcert-priority"), ".spec.hard.pods"))
}

// Each dashboard is a ConfigMap that Grafana's sidecar finds.
func TestDashboards(t *testing.T) {
	c := loaded(t)
	c.Files = append(c.Files, &common.File{Name: "dashboards/Fleet.json", Data: []byte("{\n  \"title\": \"{{ cluster }}\"\n}\n")})
	r, err := c.render("tls", values(t, "monitoring.dashboards.enabled=true,monitoring.dashboards.labels.team=a,monitoring.dashboards.annotations.folder=TLS"))
	require.NoError(t, err)
	all, err := r.objects()
	require.NoError(t, err)
	dashboard := named(all, "ConfigMap servingcert-dashboard-fleet")
	require.NotNil(t, dashboard)
	assert.JSONEq(t, "{\n  \"title\": \"{{ cluster }}\"\n}\n", at(t, dashboard, `.data.Fleet\.json`))
	assert.Equal(t, map[string]string{"app.kubernetes.io/part-of": "servingcert", "grafana_dashboard": "1", "team": "a"}, dashboard.GetLabels())
	assert.Equal(t, map[string]string{"folder": "TLS"}, dashboard.GetAnnotations())
	assert.Equal(t, "tls", dashboard.GetNamespace())
}

// Each value is in a row of TestValues, or in TestDashboards. takeOver changes no object; its test
// is in test/integration/chart.
func TestEveryValueIsTested(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(repository, chartDir, "values.yaml"))
	require.NoError(t, err)
	tree, err := parseValues(data)
	require.NoError(t, err)
	var sets strings.Builder
	for _, row := range rows() {
		sets.WriteString("\n" + row.set)
	}
	all := leaves(tree)
	assert.Greater(t, len(all), 100)
	for _, v := range all {
		isSet := regexp.MustCompile(`(?m)(^|,)` + v.path + `[=.\[]`).MatchString(sets.String())
		assert.True(t, isSet || v.path == "takeOver" || strings.HasPrefix(v.path, "monitoring.dashboards."), "no row sets %s", v.path)
	}
}

// A value without a comment, or with an invalid schema, is an error.
func TestParseValues(t *testing.T) {
	for text, want := range map[string]string{
		"a:\n  b: 1\n":              "a.b: must have a comment that describes it",
		"# A.\na: null\n":           "a: the default has no type",
		"# A.\n# @schema {\na: 1\n": "@schema",
		"- 1\n":                     "must be a mapping",
		"# S.\nsigner:\n  # B.\n  b: 1\n  c: 1\n": "signer.c: must have a comment",
	} {
		_, err := parseValues([]byte(text))
		assert.ErrorContains(t, err, want)
	}
	tree, err := parseValues([]byte("# S.\nsigner:\n  # How\n  # many.\n  # @schema {\"minimum\": 1}\n  b: 1\nrotator:\n  b: 2\n"))
	require.NoError(t, err)
	b := tree[1].children[0]
	assert.Equal(t, "How many.", b.description)
	assert.Equal(t, map[string]any{"type": "integer", "minimum": 1.0}, b.schema)
	assert.Equal(t, 2, b.def)
}

// With another namespace and other ServiceAccounts, no object names the default ones.
func TestOtherNamespace(t *testing.T) {
	const other = `signer.serviceAccount.name=issuer,trust.serviceAccount.name=bundler,rotator.serviceAccount.name=carrier,webhook.serviceAccount.name=injector
monitoring.podMonitor.enabled=true,monitoring.prometheusRule.enabled=true
policies.permissions.enabled=true,networkPolicies.egress.enabled=true,resourceQuota.enabled=true`
	for _, o := range objects(t, "tls", values(t, other)) {
		text := fmt.Sprint(o.Object)
		if o.GetKind() == "Deployment" {
			assert.Contains(t, text, "--namespace=tls")
		}
		assert.NotContains(t, text, defaultNamespace, "%s %s", o.GetKind(), o.GetName())
		for _, account := range []string{"servingcert-signer", "servingcert-trust", "servingcert-rotator", "servingcert-webhook"} {
			assert.NotContains(t, text, "system:serviceaccount:tls:"+account)
			assert.NotContains(t, text, "kind:ServiceAccount name:"+account)
			assert.NotContains(t, text, "serviceAccountName:"+account)
		}
		if o.GetNamespace() != "" {
			assert.Equal(t, "tls", o.GetNamespace())
		}
	}
}

// The notes list the next steps of the user, and nothing else.
func TestNotes(t *testing.T) {
	for set, want := range map[string][]string{
		"":                                       {"--namespace tls rollout status", "Namespace tls stays"},
		"namespace.create=false":                 {"THE NAMESPACE IS NOT LABELLED", "kubectl label namespace tls servingcert.dev/inject=enabled"},
		"remoteCA.urls={https://ca.example.com}": {"wait for Secret servingcert-cfssl"},
		"webhook.clientCA.configMapName=clients": {"wait for ConfigMap clients"},
	} {
		texts, err := loaded(t).texts("tls", values(t, set))
		require.NoError(t, err)
		for _, w := range want {
			assert.Contains(t, texts["servingcert/templates/"+notes], w)
		}
	}
}
