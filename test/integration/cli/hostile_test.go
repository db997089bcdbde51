package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
)

// hostileText is what a tenant can write into an object that the plugin shows.
const hostileText = "x\nFORGED  generation 9 signs" + // a line of its own
	"x\rFORGED  y" + // the line anew
	"x\x1b[2J\x1b[1;1H\x1b[32mFORGED  y\x1b[0m" + // ANSI escapes
	"x\u009b2JFORGED  y" + // ANSI of one byte
	"x\x1b]0;FORGED  y\x07" + // title of the window
	"x\b\b\x7fFORGED  y" + // backspaces
	"x\u202eFORGED  y\u202c\u2066y\u2069\u200f" + // bidi
	"x\u200bFORGED  y\ufeff\u2060" + // no width
	"x\u2028FORGED  y\u2029\u0085" + // line separators
	"x\tFORGED  y\tTrue" // columns

// Whatever a tenant writes into the objects that it owns, no verb gives a terminal
// anything but printable text, and no line is the tenant's.
func TestWhatTenantsWriteIsEscaped(t *testing.T) {
	const text = hostileText
	s, ns := newSystem(t), newNamespace(t, "shop", nil)
	listed := strings.ReplaceAll(text, "\n", " ") // as the signer and the rotator write what is one of several lines
	s.ca(t, with(stable(), api.CAWhy, text, api.CAWaitingFor, text, api.CARotation, "overlap:"+text, api.CARotationOutcome, text, api.CAWarning, "X: "+listed))
	require.NoError(t, s.publish(t.Context(), api.TrustStatusName, map[string]string{
		api.TrustBundleHash: strings.Repeat("ab", 32), api.TrustTargets: "1", api.TrustHolding: "0", api.TrustPending: "1", api.TrustRefusing: "0",
		api.TrustNotHolding: "ConfigMap shop/x: Forbidden: " + listed, api.TrustProblem: text}))
	makeService(t, ns, "web")
	require.NoError(t, setReady(t.Context(), ns, "web", metav1.ConditionFalse, text, text))
	makeService(t, ns, "old")
	require.NoError(t, writeReady(t.Context(), ns, "old", metav1.ConditionTrue, text, text, state.Ready{Secret: "old-tls", Leaf: hash(1)}))
	setServing(t, ns, "old", metav1.ConditionFalse, api.ServingStale, text, time.Now())
	yes := true
	makePod(t, ns, "w-0", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "old-tls"}},
		metav1.OwnerReference{APIVersion: "apps/v1", Kind: text, Name: text, UID: "u", Controller: &yes})

	quoted, err := os.CreateTemp(t.TempDir(), "*.yaml")
	require.NoError(t, err)
	_, err = fmt.Fprintf(quoted, "{apiVersion: v1, kind: Pod, metadata: {name: %s, namespace: %s, annotations: {%s: %s}}, spec: {containers: [{name: a, image: a}]}}\n",
		yamlText(text), ns, api.AnnotationMode, yamlText(text))
	require.NoError(t, err)
	require.NoError(t, quoted.Close())

	system := []string{"--system-namespace", s.namespace, "-n", ns}
	for _, args := range [][]string{
		append([]string{"status"}, system...), append([]string{"status", "web"}, system...), append([]string{"status", "old"}, system...),
		append([]string{"status", "-o", "json"}, system...), append([]string{"status", "-o", "yaml"}, system...),
		append([]string{"verify", "web"}, system...), append([]string{"verify", "old"}, system...),
		append([]string{"renew", "web", "--timeout", "1s"}, system...),
		{"rotate-ca", "-n", s.namespace, "--distrust-now", "--reason", "stolen"},
		{"rotate-ca", "-n", s.namespace, "--proceed", "9"},
		{"inject", "-f", quoted.Name(), "-o", "report"},
		{"inject", "-f", quoted.Name(), "--live", "--diff"},
		{"inject", "--live", "-o", "report", "-n", ns},
		{"plan", "-n", ns}, {"plan", "-n", ns, "-o", "yaml"}, {"plan", "-n", ns, "-o", "html"},
		append([]string{"doctor"}, system...), append([]string{"verify", "old", "--any"}, system...), append([]string{"clients", "old"}, system...),
		{"analyze", "-f", quoted.Name()},
	} {
		r := cli(t, args...)
		for _, output := range []string{r.out, r.err} {
			for i, line := range strings.Split(output, "\n") {
				for _, c := range line {
					assert.True(t, strconv.IsPrint(c), "%s: line %d holds %q: %q", filepath.Join(args...), i, c, line)
				}
				assert.NotRegexp(t, `^\s*FORGED  `, line, args) // YAML breaks long lines at single spaces
			}
		}
	}
}

// yamlText returns text in double quotes, as YAML reads it.
func yamlText(text string) string {
	var b strings.Builder
	for _, c := range text {
		fmt.Fprintf(&b, `\U%08x`, c)
	}
	return `"` + b.String() + `"`
}
