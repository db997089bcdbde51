package mutate

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	evanphx "github.com/evanphx/json-patch/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate/choose"
	"github.com/servingcert/servingcert/pkg/mutate/jsonpatch"
)

var update = flag.Bool("update", false, "write the current output as the expected output")

// scene is a golden's input: a pod as written, and the objects of its namespace.
type scene struct {
	pod   []byte // JSON
	known choose.Known
}

const (
	withoutImage = "the webhook runs without --proxy-image"
	staticPod    = "inject --host: the pod is static"
	publicRoots  = "the webhook runs with --public-roots"
	identities   = "the webhook runs with --trust-domain"
	proxyImage   = "registry.example/servingcert-proxy@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
)

func readScene(t testing.TB, data []byte) scene {
	t.Helper()
	s := scene{known: choose.Known{Config: choose.Config{ProxyImage: proxyImage}}}
	for _, doc := range bytes.Split(data, []byte("\n---\n")) {
		raw, err := yaml.YAMLToJSON(doc)
		require.NoError(t, err)
		var kind metav1.TypeMeta
		require.NoError(t, json.Unmarshal(raw, &kind))
		switch kind.Kind {
		case "Pod":
			require.NoError(t, yaml.UnmarshalStrict(doc, &corev1.Pod{}), "a field that is misspelt proves nothing")
			s.pod = raw
		case "Service":
			svc := &corev1.Service{}
			require.NoError(t, yaml.UnmarshalStrict(doc, svc))
			if svc.Namespace == "" || svc.Namespace == "shop" {
				s.known.Services = append(s.known.Services, svc)
			} else {
				s.known.Elsewhere = func(namespace, name string) *corev1.Service {
					if namespace == svc.Namespace && name == svc.Name {
						return svc
					}
					return nil
				}
			}
		case "Namespace":
			ns := &corev1.Namespace{}
			require.NoError(t, yaml.UnmarshalStrict(doc, ns))
			s.known.Namespace = ns.Annotations
		case "Secret":
			secret := &corev1.Secret{}
			require.NoError(t, yaml.UnmarshalStrict(doc, secret))
			s.known.ConventionalSecret = api.IsConventional(secret.Name, secret.Type, secret.Labels)
		case "ClusterTrustBundle": // the webhook runs with --trust-source=clustertrustbundle
			s.known.TrustBundle = true
		case "ConfigMap": // a flag of the webhook: --unknown-programs=flags, or no --proxy-image
			switch {
			case bytes.Contains(doc, []byte(withoutImage)):
				s.known.ProxyImage = ""
			case bytes.Contains(doc, []byte(staticPod)):
				s.known.HostFiles = "/var/lib/servingcert"
			case bytes.Contains(doc, []byte(publicRoots)):
				s.known.PublicRoots = true
			case bytes.Contains(doc, []byte(identities)):
				s.known.TrustDomain = "cluster.example.com"
			default:
				s.known.UnknownPrograms = api.UnknownProgramsFlags
			}
		default:
			t.Fatalf("a %q has no place in a golden", kind.Kind)
		}
	}
	require.NotNil(t, s.pod, "no Pod in the golden")
	return s
}

func decodePod(t testing.TB, raw []byte) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{}
	require.NoError(t, json.Unmarshal(raw, pod))
	return pod
}

// apply applies the patch to the pod as written, with an independent implementation of
// RFC 6902.
func apply(t testing.TB, raw []byte, patch jsonpatch.Patch) []byte {
	t.Helper()
	ops, err := patch.JSON()
	require.NoError(t, err)
	if ops == nil {
		return raw
	}
	decoded, err := evanphx.DecodePatch(ops)
	require.NoError(t, err)
	out, err := decoded.Apply(raw)
	require.NoError(t, err, "%s", ops)
	return out
}

// render returns the outcome in comments, and the patched pod.
func render(t testing.TB, raw []byte, report Report, denied error) []byte {
	t.Helper()
	var out bytes.Buffer
	if denied != nil {
		fmt.Fprintf(&out, "# denied: %v\n", denied)
		return out.Bytes()
	}
	fmt.Fprintf(&out, "# %s\n", report.Reason)
	for _, w := range report.Warnings() {
		fmt.Fprintf(&out, "# warning: %s\n", w)
	}
	pod, err := yaml.JSONToYAML(raw)
	require.NoError(t, err)
	out.Write(pod)
	return out.Bytes()
}

func goldens(t testing.TB) []string {
	t.Helper()
	inputs, err := filepath.Glob("testdata/*.in.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, inputs)
	return inputs
}

func TestGoldens(t *testing.T) {
	for _, in := range goldens(t) {
		t.Run(strings.TrimSuffix(filepath.Base(in), ".in.yaml"), func(t *testing.T) {
			data, err := os.ReadFile(in)
			require.NoError(t, err)
			s := readScene(t, data)
			pod := decodePod(t, s.pod)
			untouched := pod.DeepCopy()
			patch, report, denied := Mutate(pod, s.known)
			require.Equal(t, untouched, pod, "the pod given was changed")
			after := apply(t, s.pod, patch)

			got := render(t, after, report, denied)
			golden := strings.TrimSuffix(in, ".in.yaml") + ".out.yaml"
			if *update {
				require.NoError(t, os.WriteFile(golden, got, 0o644))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err, "run with -update to write it")
			assert.Equal(t, string(want), string(got))

			for _, w := range report.Warnings() {
				assert.Less(t, len(w), 400, "too long for a person to read: %s", w)
				assert.NotContains(t, w, "\n")
			}
			if denied != nil {
				return
			}
			again, reportAgain, denied := Mutate(decodePod(t, after), s.known)
			require.NoError(t, denied)
			assert.Empty(t, again, "a second pass changes nothing")
			assert.Equal(t, report, reportAgain, "and says the same")
		})
	}
}
