package deploy

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"

	"github.com/servingcert/servingcert/pkg/trust/controller/target"
)

// The chart knows the kinds of target that the rotator has. Its templates, and what they
// render, are tested in hack/chart.
func TestChartKnowsEveryTarget(t *testing.T) {
	data, err := os.ReadFile("chart/values.schema.json")
	require.NoError(t, err)
	var schema struct {
		Properties struct {
			Trust struct {
				Properties struct {
					Targets struct {
						Default []string
						Items   struct{ Enum []string }
					}
				}
			}
		}
	}
	require.NoError(t, json.Unmarshal(data, &schema))
	targets := schema.Properties.Trust.Properties.Targets
	assert.Equal(t, target.Names(), targets.Items.Enum)
	assert.Equal(t, target.Names(), targets.Default)
	template, err := os.ReadFile("chart/templates/_args.tpl")
	require.NoError(t, err)
	assert.Contains(t, string(template), fmt.Sprintf("if lt (len .targets) %d }}", len(target.Names())), "fewer than all are named in a flag")
}

// A flag that the chart gives is one of a program.
func TestChartGivesKnownFlags(t *testing.T) {
	data, err := os.ReadFile("chart/templates/_args.tpl")
	require.NoError(t, err)
	var sources strings.Builder
	require.NoError(t, filepath.WalkDir("../cmd", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") {
			return err
		}
		source, err := os.ReadFile(path)
		sources.Write(source)
		return err
	}))
	given := regexp.MustCompile(`(?m)^- --([a-z0-9-]+)|"([a-z0-9-]+)" \$?\.\w`).FindAllStringSubmatch(string(data), -1)
	assert.Greater(t, len(given), 40, "flags are given in another way than this test looks for")
	for _, m := range given {
		flag := m[1] + m[2]
		assert.Contains(t, sources.String(), `"`+flag+`"`, "--%s", flag)
	}
}

// The CA is in the namespace: each tool has a word of its own for what it must not delete.
func TestNoToolDeletesTheNamespace(t *testing.T) {
	objects, err := Objects()
	require.NoError(t, err)
	for _, obj := range objects {
		if obj.GetKind() != "Namespace" {
			continue
		}
		assert.Equal(t, map[string]string{
			"helm.sh/resource-policy":           "keep",
			"argocd.argoproj.io/sync-options":   "Prune=false,Delete=false",
			"kustomize.toolkit.fluxcd.io/prune": "disabled",
		}, obj.GetAnnotations())
		return
	}
	require.Fail(t, "install.yaml has no Namespace")
}

// Who starts a process without its Deployment starts the program that the Deployment does.
func TestProgramsAreThoseOfTheDeployments(t *testing.T) {
	objects, err := Objects()
	require.NoError(t, err)
	for _, d := range ofKind[appsv1.Deployment](t, objects, "Deployment") {
		container := d.Spec.Template.Spec.Containers[0]
		program, flags := Program(strings.TrimPrefix(d.Name, "servingcert-"))
		image, _, _ := strings.Cut(path.Base(container.Image), ":")
		assert.Equal(t, image, program, d.Name)
		assert.Subset(t, container.Args, flags, d.Name)
	}
}
