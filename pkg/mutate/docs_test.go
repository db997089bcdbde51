package mutate

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/formats"
	"github.com/servingcert/servingcert/pkg/mutate/choose"
	"github.com/servingcert/servingcert/pkg/mutate/reasons"
)

const (
	docFile  = "../../docs/injection.md"
	docBegin = "<!-- rules: written by go test ./pkg/mutate -run TestDocumentation -update -->\n"
	docEnd   = "<!-- end of rules -->\n"
)

// pages matches the URLs of documentation pages in the rules.
var pages = regexp.MustCompile(regexp.QuoteMeta(api.Documentation) + `(\w+)\.md`)

// TestDocumentation compares the table in docs/injection.md with the rules.
func TestDocumentation(t *testing.T) {
	var table strings.Builder
	table.WriteString("| reason | what was found | what follows | what to do |\n|---|---|---|---|\n")
	for _, r := range reasons.All() {
		do := cmp.Or(pages.ReplaceAllString(r.Do, "[$1.md]($1.md)"), "–")
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s |\n", r.Reason, r.When, r.Then, do)
	}
	data, err := os.ReadFile(docFile)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(data), docBegin)
	require.True(t, ok, "the mark before the table is gone")
	have, after, ok := strings.Cut(rest, docEnd)
	require.True(t, ok, "the mark after the table is gone")
	if *update {
		require.NoError(t, os.WriteFile(docFile, []byte(before+docBegin+table.String()+docEnd+after), 0o644))
		have = table.String()
	}
	assert.Equal(t, table.String(), have)
}

// TestEveryRuleHasAGolden: every reason is tested by a golden.
func TestEveryRuleHasAGolden(t *testing.T) {
	seen := map[reasons.Reason]bool{}
	for _, in := range goldens(t) {
		data, err := os.ReadFile(in)
		require.NoError(t, err)
		s := readScene(t, data)
		_, report, err := Mutate(decodePod(t, s.pod), s.known)
		if err != nil {
			continue
		}
		for _, r := range report.Reasons() {
			seen[r] = true
		}
	}
	for f := range formats.Asked().Formats() { // see TestAFormatThatTheSecretDoesNotHold
		if f != &formats.Combined {
			seen[reasons.NoFormat(f)] = true
		}
	}
	for _, r := range reasons.All() {
		if r.Reason == reasons.StatusTooLarge { // needs 256 KiB, see TestStatusLeavesRoom
			continue
		}
		assert.True(t, seen[r.Reason], "no golden for %s", r.Reason)
	}
}

func TestStatusLeavesRoom(t *testing.T) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "web", Image: "example.com/web", Args: []string{"serve"}, Ports: []corev1.ContainerPort{{ContainerPort: 8443}},
		}}},
	}
	web := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", Annotations: map[string]string{api.AnnotationSecretName: "web-tls"}},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": "web"},
			Ports:    []corev1.ServicePort{{Name: "https", Port: 443, TargetPort: intstr.FromInt32(8443)}},
		},
	}
	pod.Annotations = map[string]string{api.AnnotationMode: "args"}
	pod.Annotations["big"] = strings.Repeat("x", 256<<10-len("big")-len(api.AnnotationMode)-len("args")-50)
	patch, report, err := Mutate(pod, choose.Known{Services: []*corev1.Service{web}})
	require.NoError(t, err)
	assert.Equal(t, []reasons.Reason{reasons.Injected, reasons.StatusTooLarge}, report.Reasons())
	ops, err := patch.JSON()
	require.NoError(t, err)
	assert.NotContains(t, string(ops), "annotations")
}

// TestDocumentationNamesGoldens: every golden that the page refers to exists.
func TestDocumentationNamesGoldens(t *testing.T) {
	data, err := os.ReadFile(docFile)
	require.NoError(t, err)
	for trap := 1; trap <= 20; trap++ {
		assert.Contains(t, string(data), fmt.Sprintf("\n| %d | ", trap), "trap %d is not in the page", trap)
	}
	for _, word := range strings.FieldsFunc(string(data), func(c rune) bool { return strings.ContainsRune(" `,|\n", c) }) {
		if strings.HasPrefix(word, "trap") && strings.Contains(word, "-") {
			assert.FileExists(t, filepath.Join("testdata", word+".in.yaml"))
		}
	}
}
