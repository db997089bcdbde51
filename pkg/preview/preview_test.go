package preview_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate/choose"
	"github.com/servingcert/servingcert/pkg/preview"
)

func run(t *testing.T, input string) (string, []preview.Outcome) {
	t.Helper()
	return runAs(t, input, preview.Options{})
}

// runAs is run for a webhook with these options.
func runAs(t *testing.T, input string, opts preview.Options) (string, []preview.Outcome) {
	t.Helper()
	docs, err := preview.Parse("in.yaml", []byte(input))
	require.NoError(t, err)
	docs, outcomes, err := preview.Run(t.Context(), docs, opts)
	require.NoError(t, err)
	return string(preview.Join(docs)), outcomes
}

// TestTheWebhooksGoldens: the preview of a pod equals the webhook's result.
func TestTheWebhooksGoldens(t *testing.T) {
	inputs, err := filepath.Glob("../mutate/testdata/*.in.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, inputs)
	for _, in := range inputs {
		t.Run(strings.TrimSuffix(filepath.Base(in), ".in.yaml"), func(t *testing.T) {
			input, err := os.ReadFile(in)
			require.NoError(t, err)
			golden, err := os.ReadFile(strings.TrimSuffix(in, ".in.yaml") + ".out.yaml")
			require.NoError(t, err)
			opts := preview.Options{Config: choose.Config{ProxyImage: "registry.example/servingcert-proxy@sha256:" + strings.Repeat("a", 64)}}
			if bytes.Contains(input, []byte("the webhook runs without --proxy-image")) {
				opts.ProxyImage = ""
			}
			if bytes.Contains(input, []byte("kind: ClusterTrustBundle")) { // a golden marks the setting with it
				opts.TrustBundle = true
			}
			if bytes.Contains(input, []byte("kind: ConfigMap # the webhook runs with --unknown-programs=flags")) {
				opts.UnknownPrograms = api.UnknownProgramsFlags
			}
			opts.PublicRoots = bytes.Contains(input, []byte("the webhook runs with --public-roots"))
			if bytes.Contains(input, []byte("the webhook runs with --trust-domain")) {
				opts.TrustDomain = "cluster.example.com"
			}
			if bytes.Contains(input, []byte("inject --host: the pod is static")) {
				opts.HostFiles = "/var/lib/servingcert"
			}
			got, outcomes := runAs(t, string(input), opts)
			require.Len(t, outcomes, 1)
			if denied, ok := strings.CutPrefix(string(golden), "# denied: "); ok {
				require.EqualError(t, outcomes[0].Refused, strings.TrimSpace(denied))
				assert.Equal(t, string(input), got)
				return
			}
			parts := strings.Split(got, "\n---\n")
			assert.YAMLEq(t, string(golden), parts[len(parts)-1])
			assert.Contains(t, string(golden), "# "+string(outcomes[0].Report.Reason)+"\n")
		})
	}
}

const service = `apiVersion: v1
kind: Service
metadata: {name: web, annotations: {servingcert.dev/secret-name: web-tls}}   # a comment
spec: {ports: [{port: 443, targetPort: 8443}], selector: {app: web}}
`

func deployment(kind, wrap string) string {
	return strings.ReplaceAll("apiVersion: x/v1\nkind: "+kind+"\nmetadata: {name: web}\n"+wrap, "TEMPLATE",
		"{metadata: {labels: {app: web}, annotations: {servingcert.dev/mode: args}}, spec: {containers: [{name: web, image: x, args: [serve], ports: [{containerPort: 8443}]}]}}")
}

func TestEveryKindWithATemplate(t *testing.T) {
	for kind, wrap := range map[string]string{
		"Deployment": "spec: {template: TEMPLATE}", "StatefulSet": "spec: {template: TEMPLATE}", "DaemonSet": "spec: {template: TEMPLATE}",
		"ReplicaSet": "spec: {template: TEMPLATE}", "ReplicationController": "spec: {template: TEMPLATE}", "Job": "spec: {template: TEMPLATE}",
		"CronJob": "spec: {jobTemplate: {spec: {template: TEMPLATE}}}", "PodTemplate": "template: TEMPLATE", "Rollout": "spec: {template: TEMPLATE}",
	} {
		t.Run(kind, func(t *testing.T) {
			got, outcomes := run(t, service+"---\n"+deployment(kind, wrap))
			require.Len(t, outcomes, 1)
			assert.Equal(t, kind, outcomes[0].Kind)
			assert.True(t, outcomes[0].Changed)
			assert.Contains(t, got, "--tls-cert-file=/etc/servingcert/tls.crt")
			assert.True(t, strings.HasPrefix(got, service), "the Service stays byte for byte")
		})
	}
}

// TestStaticPods: with a directory on nodes, pods get their files from there, regardless of their
// namespace; only Pods can be static.
func TestStaticPods(t *testing.T) {
	static := preview.Options{Config: choose.Config{HostFiles: "/var/lib/servingcert"}}
	pod := func(name string) string {
		return "apiVersion: v1\nkind: Pod\nmetadata: {name: " + name + ", namespace: kube-system}\nspec: {containers: [{name: c, image: kube-scheduler, command: [kube-scheduler]}]}\n"
	}
	got, outcomes := runAs(t, "apiVersion: v1\nkind: Namespace\nmetadata: {name: kube-system}\n---\n"+pod("s"), static)
	require.Len(t, outcomes, 1)
	assert.Equal(t, "s-tls", outcomes[0].Report.Secret)
	assert.Contains(t, got, "path: /var/lib/servingcert/s, ")
	assert.NotContains(t, got, api.AnnotationStatus)
	for input, want := range map[string]string{
		deployment("Deployment", "spec: {template: TEMPLATE}"): `kind: "Deployment": must be Pod: the kubelet runs only Pods from files`,
		pod(`"../x"`): `metadata.name: "../x": must be a valid Pod name: it is the name of the directory with its files`,
	} {
		got, outcomes := runAs(t, input, static)
		require.Len(t, outcomes, 1)
		assert.EqualError(t, outcomes[0].Problem, want)
		assert.Equal(t, withLastLineBreak(input), got)
	}
}

// TestPodsThatServeNothing: a Job, a CronJob and a Helm test with the labels of a
// Deployment are servers only if they declare the port.
func TestPodsThatServeNothing(t *testing.T) {
	apiVersions := map[string]string{"Job": "batch/v1", "CronJob": "batch/v1", "Deployment": "apps/v1", "Pod": "v1"}
	for kind, wrap := range map[string]string{
		"Job": "spec: {template: TEMPLATE}", "CronJob": "spec: {jobTemplate: {spec: {template: TEMPLATE}}}", "Deployment": "spec: {template: TEMPLATE}",
		"Pod": "metadata: {name: web, labels: {app: web}, annotations: {helm.sh/hook: test, servingcert.dev/mode: args}}\nspec: {containers: [{name: web, image: x, args: [serve], ports: [{containerPort: 8443}]}]}",
	} {
		for _, port := range []string{"8443", "9090"} {
			serves := port == "8443" || kind == "Deployment"
			t.Run(kind+" with port "+port, func(t *testing.T) {
				_, outcomes := run(t, service+"---\n"+strings.NewReplacer("x/v1", apiVersions[kind], "containerPort: 8443", "containerPort: "+port).Replace(deployment(kind, wrap)))
				require.Len(t, outcomes, 1)
				rows := preview.Rows(outcomes)
				require.Len(t, rows, 1)
				if serves {
					assert.Equal(t, "files,env,flags", rows[0].Done)
					return
				}
				assert.Equal(t, "nothing", rows[0].Done)
				assert.True(t, strings.HasPrefix(rows[0].Why, "NotServing: "), rows[0].Why)
			})
		}
	}
}

func TestWhatIsNotOursStaysByteForByte(t *testing.T) {
	for name, input := range map[string]string{
		"other kinds and comments": "# a file\n\n---\n# one\nkind: ConfigMap\napiVersion: v1\ndata:\n    b: 1 # odd indent\n    a: |\n      x\n---\n\n---\nkind: Thing\napiVersion: a/b\nspec: {template: {spec: {}}}\n",
		"no newline at the end":    "kind: ConfigMap\napiVersion: v1",
		"windows line ends":        "kind: ConfigMap\r\napiVersion: v1\r\n---\r\nkind: ConfigMap\r\n",
		"empty":                    "",
		"pod of no service":        "kind: Pod\napiVersion: v1\nmetadata: {name: x}\nspec: {containers: [{image: b, name: a}]}\n",
		"json":                     `{"kind":"ConfigMap",  "apiVersion":"v1"}`,
		"namespace not opted in":   "apiVersion: v1\nkind: Namespace\nmetadata: {name: default}\n---\n" + service + "---\n" + deployment("Deployment", "spec: {template: TEMPLATE}\n"),
		"namespace left out":       strings.ReplaceAll(service+"---\n"+deployment("Deployment", "spec: {template: TEMPLATE}\n"), "{name: web", "{namespace: kube-system, name: web"),
	} {
		t.Run(name, func(t *testing.T) {
			got, outcomes := run(t, input)
			assert.Equal(t, withLastLineBreak(input), got)
			for _, o := range outcomes {
				assert.False(t, o.Changed)
			}
		})
	}
}

// OpenShift's annotations count in manifests and in a cluster if the webhook has the
// flag, and otherwise not.
func TestOpenShiftAnnotations(t *testing.T) {
	in := strings.ReplaceAll(service, api.AnnotationSecretName, api.OpenShiftSecretName)
	workload := deployment("Deployment", "spec: {template: TEMPLATE}\n")
	var svc corev1.Service
	require.NoError(t, yaml.Unmarshal([]byte(in), &svc))
	live := func(context.Context, string) (choose.Known, bool, error) {
		return choose.Known{Services: []*corev1.Service{&svc}}, true, nil
	}
	for _, openShift := range []bool{false, true} {
		for name, opts := range map[string]preview.Options{in + "---\n" + workload: {}, workload: {Live: live}} {
			opts.OpenShift = openShift
			docs, err := preview.Parse("in.yaml", []byte(name))
			require.NoError(t, err)
			_, outcomes, err := preview.Run(t.Context(), docs, opts)
			require.NoError(t, err)
			require.Len(t, outcomes, 1)
			assert.Equal(t, openShift, outcomes[0].Changed)
		}
	}
}

func TestListsAndJSON(t *testing.T) {
	raw, err := yaml.YAMLToJSON([]byte("apiVersion: v1\nkind: List\nitems:\n- " + strings.ReplaceAll(strings.TrimSpace(service), "\n", "\n  ") + "\n- " + strings.ReplaceAll(deployment("Deployment", "spec: {template: TEMPLATE}"), "\n", "\n  ")))
	require.NoError(t, err)
	got, outcomes := run(t, string(raw))
	require.Len(t, outcomes, 1)
	require.True(t, outcomes[0].Changed)
	require.True(t, json.Valid([]byte(got)), "JSON stays JSON")
	var list struct {
		Items []struct {
			Spec struct{ Template corev1.PodTemplateSpec }
		}
	}
	require.NoError(t, yaml.Unmarshal([]byte(got), &list))
	require.Equal(t, "true", list.Items[1].Spec.Template.Labels[api.LabelInjected])
}

func TestATemplateWithoutMetadata(t *testing.T) {
	got, _ := run(t, "apiVersion: v1\nkind: Pod\nspec: {containers: [{name: web, image: x, args: [serve]}]}\n---\napiVersion: v1\nkind: Secret\ntype: kubernetes.io/tls\nmetadata: {name: serving-cert}\n")
	assert.NotContains(t, got, api.LabelInjected, "no port, so not injected")
	got, _ = run(t, "apiVersion: v1\nkind: Pod\nspec: {containers: [{name: web, image: x, args: [serve], ports: [{containerPort: 1}]}]}\n---\napiVersion: v1\nkind: Secret\ntype: kubernetes.io/tls\nmetadata: {name: serving-cert}\n")
	assert.Contains(t, got, api.LabelInjected)
}

func TestBrokenInputIsNamed(t *testing.T) {
	_, err := preview.Parse("x.yaml", []byte("kind: A\n---\n{{ helm }}\n"))
	require.ErrorContains(t, err, "x.yaml, document 2")
	_, err = preview.Parse("x.yaml", []byte("- a\n"))
	require.ErrorContains(t, err, "not an object")
}

func TestListsAreBounded(t *testing.T) {
	list := func(depth int, inner string) string {
		return strings.Repeat("{kind: List, apiVersion: v1, items: [", depth) + inner + strings.Repeat("]}", depth)
	}
	const pod = "{apiVersion: v1, kind: Pod, metadata: {name: web, annotations: {servingcert.dev/secret-name: web-tls}}, spec: {containers: [{name: web, image: x}]}}"
	_, outcomes := run(t, list(preview.MaxLists, pod))
	require.Len(t, outcomes, 1)
	require.True(t, outcomes[0].Changed)

	in := list(preview.MaxLists+1, pod) + "\n---\n" + pod
	_, outcomes = run(t, in)
	require.Len(t, outcomes, 2)
	require.EqualError(t, outcomes[0].Problem, "items[0].items[0].items[0].items[0]: Lists are nested more than 4 deep")
	require.Equal(t, "in.yaml, document 1", outcomes[0].Document)
	require.True(t, outcomes[1].Changed, "the others are previewed")

	many := list(1, strings.Repeat("{kind: A}, ", preview.MaxObjects)+"{kind: A}")
	docs, err := preview.Parse("in.yaml", []byte(many))
	require.NoError(t, err)
	_, _, err = preview.Run(t.Context(), docs, preview.Options{})
	require.EqualError(t, err, "in.yaml, document 1: more than 10000 objects, those in Lists included")
}

// Incomplete pod templates, and those in patterns or other objects, are reported and not
// changed.
func TestWhatIsNoTemplate(t *testing.T) {
	const (
		meta  = "metadata: {annotations: {servingcert.dev/secret-name: web-tls}}"
		whole = "{" + meta + ", spec: {containers: [{name: web, image: x}]}}"
	)
	for spec, path := range map[string]string{
		"{pattern: " + whole + "}":                                                                   "spec.pattern.spec.containers",
		"{template: {" + meta + ", spec: {containers: [{name: web}]}}}":                              "spec.template.spec.containers",
		"{template: {" + meta + ", spec: {containers: [{image: x}]}}}":                               "spec.template.spec.containers",
		"{template: {" + meta + ", spec: {containers: [{name: web, image: x}, null]}}}":              "spec.template.spec.containers",
		"{template: {" + meta + ", containers: [{name: web, image: x}]}}":                            "spec.template.containers",
		"{objectTemplate: {apiVersion: apps/v1, kind: Deployment, spec: {template: " + whole + "}}}": "spec.objectTemplate.spec.template",
		"{a.b: [{initContainers: [{name: web, image: x}]}]}":                                         `spec["a.b"][0].initContainers`,
	} {
		in := "apiVersion: x/v1\nkind: Thing\nmetadata: {name: web}\nspec: " + spec + "\n"
		got, outcomes := run(t, in)
		assert.Equal(t, in, got)
		if assert.Len(t, outcomes, 1, spec) {
			assert.True(t, outcomes[0].NotLookedInto)
			assert.Equal(t, path, outcomes[0].Path)
			assert.Equal(t, "Thing/web ("+path+")", preview.Rows(outcomes)[0].Workload)
		}
	}
	for _, spec := range []string{"{template: " + whole + "}", "{podTemplates: [" + whole + "]}", "{headTemplate: " + whole + "}", "{template: {apiVersion: v1, kind: Pod, " + whole[1:] + "}"} {
		_, outcomes := run(t, "apiVersion: x/v1\nkind: Thing\nmetadata: {name: web}\nspec: "+spec+"\n")
		if assert.Len(t, outcomes, 1, spec) {
			assert.True(t, outcomes[0].Changed, spec)
		}
	}
	for _, none := range []string{"{containers: 3}", "{containers: []}", "{template: {spec: {}}}", "{properties: {containers: {type: array}}}", "{container: web}"} {
		_, outcomes := run(t, "apiVersion: x/v1\nkind: Thing\nmetadata: {name: web}\nspec: "+none+"\n")
		assert.Empty(t, outcomes, none)
	}
}
