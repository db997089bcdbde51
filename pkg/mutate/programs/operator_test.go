package programs

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	k8syaml "sigs.k8s.io/yaml"

	"github.com/servingcert/servingcert/pkg/api"
)

func TestOfConfigMap(t *testing.T) {
	of := func(data map[string]string) (Table, error) { return OfConfigMap(&corev1.ConfigMap{Data: data}) }
	for _, nothing := range []map[string]string{nil, {}, {api.ProgramsKey: ""}, {api.ProgramsKey: "# none\n"}} {
		table, err := of(nothing)
		require.NoError(t, err)
		assert.Equal(t, Builtin(), table)
	}

	table, err := of(map[string]string{api.ProgramsKey: "- {program: acme, images: [acme, grafana], none: n}\n"})
	require.NoError(t, err)
	assert.Len(t, table.All(), len(Builtin().All())+1)
	assert.Equal(t, "acme", nameOf(table.ByImage("acme")))
	assert.Equal(t, "acme", nameOf(table.ByImage("grafana/grafana")))
	assert.Equal(t, "prometheus", nameOf(table.ByImage("prom/prometheus")))
	assert.Equal(t, "grafana", nameOf(Builtin().ByImage("grafana/grafana")), "what is built in stays as it is")

	for says, data := range map[string]map[string]string{
		`key "programs": must be programs.yaml`:                                                        {"programs": ""},
		`key "b": must be programs.yaml`:                                                               {api.ProgramsKey: "", "b": ""},
		`programs.yaml: line 1: must be a list of programs`:                                            {api.ProgramsKey: "{}"},
		`programs.yaml: line 2: program "a": reload: "no": must be itself, signal, request or restart`: {api.ProgramsKey: "- {program: a, images: [a], none: n,\n  reload: \"no\"}\n"},
		`programs.yaml: program "a": config: "web-config.yml" differs from that of program "` + withWebConfig() + `": must be the same, or have another name`: {api.ProgramsKey: withFile("a", "config: {web-config.yml: x}")},
	} {
		table, err := of(data)
		require.EqualError(t, err, says)
		assert.Empty(t, table.All())
	}
}

// TestTheExampleOfThePage: the example in docs/programs.md is valid.
func TestTheExampleOfThePage(t *testing.T) {
	page, err := os.ReadFile(pageFile)
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(page), "```yaml\n")
	require.True(t, ok)
	example, _, ok := strings.Cut(rest, "```\n")
	require.True(t, ok)
	cm := &corev1.ConfigMap{}
	require.NoError(t, k8syaml.UnmarshalStrict([]byte(example), cm))
	assert.Equal(t, api.ProgramsName, cm.Name)
	assert.Equal(t, api.DefaultNamespace, cm.Namespace)
	table, err := OfConfigMap(cm)
	require.NoError(t, err)
	assert.Len(t, table.All(), len(Builtin().All())+3)
}

// withWebConfig returns the first program of the built-in table with that file.
func withWebConfig() string {
	for _, p := range Builtin().All() {
		if _, ok := p.Config["web-config.yml"]; ok {
			return p.Name
		}
	}
	return ""
}
