package mutate

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate/choose"
)

// workload is a line of testdata/corpus.yaml: the container of a Deployment behind a Service.
type workload struct {
	Image         string
	Command, Args []string
	Env           map[string]string
	Port          int32    // the Service's targetPort
	Exec          []string // the command of a readiness probe
	Sidecar       []string // the arguments of another container
	User          *int64   // runAsUser
	Group         *int64   // fsGroup
	Mode          string   // what the Service says
	Combined      bool     // the Secret has the combined file
	// Want is what the container gets in addition to files and variables, and the notes.
	Want string
}

const corpusFile = "testdata/corpus.yaml"

// expected matches the expected outcome in a line.
var expected = regexp.MustCompile(`, want: ".*"}$`)

// TestCorpus: what typical Deployments get. A container gets more than files and variables
// only if its program is known to take it, or on request.
func TestCorpus(t *testing.T) {
	data, err := os.ReadFile(corpusFile)
	require.NoError(t, err)
	lines := strings.Split(string(data), "\n")
	seen := map[string]bool{}
	for i, line := range lines {
		if !strings.HasPrefix(line, "- ") {
			continue
		}
		var list []workload
		require.NoError(t, yaml.UnmarshalStrict([]byte(line), &list), "line %d", i+1)
		input := expected.ReplaceAllString(line, "")
		require.False(t, seen[input], "line %d is there twice", i+1)
		seen[input] = true
		got := list[0].outcome(t)
		if *update {
			lines[i] = input + `, want: "` + got + `"}`
			continue
		}
		assert.Equal(t, list[0].Want, got, "line %d: %s", i+1, input)
	}
	if *update {
		require.NoError(t, os.WriteFile(corpusFile, []byte(strings.Join(lines, "\n")), 0o644))
	}
	assert.Greater(t, len(seen), 130)
}

// outcome returns what the container of the workload gets, and the notes.
func (w workload) outcome(t *testing.T) string {
	t.Helper()
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Annotations: map[string]string{api.AnnotationSecretName: "web-tls"}},
		Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{
			{Name: "web", Port: 443, TargetPort: intstr.FromInt32(w.Port)},
		}},
	}
	if w.Mode != "" {
		svc.Annotations[api.AnnotationMode] = w.Mode
	}
	if w.Combined {
		svc.Annotations[api.AnnotationFormats] = "combined.pem,keystore.p12"
	}
	c := corev1.Container{
		Name: "web", Image: w.Image, Command: w.Command, Args: w.Args, Ports: []corev1.ContainerPort{{ContainerPort: w.Port}},
		SecurityContext: &corev1.SecurityContext{RunAsUser: w.User},
	}
	for _, name := range sortedKeys(w.Env) {
		c.Env = append(c.Env, corev1.EnvVar{Name: name, Value: w.Env[name]})
	}
	if len(w.Exec) > 0 {
		c.ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: w.Exec}}}
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{c}, SecurityContext: &corev1.PodSecurityContext{FSGroup: w.Group}},
	}
	if len(w.Sidecar) > 0 {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "sidecar", Image: "example.com/sidecar", Args: w.Sidecar})
	}
	known := choose.Known{Services: []*corev1.Service{svc}}
	after := pass(t, pod, known)
	_, report, err := Mutate(pod, known)
	require.NoError(t, err)
	return given(&pod.Spec.Containers[0], &after.Spec.Containers[0]) + " | " + notesOf(report)
}

// given returns what a container has got in addition to the files and variables of every
// container.
func given(before, after *corev1.Container) string {
	var parts []string
	own := slices.Concat(before.Command, before.Args)
	for _, token := range slices.Concat(after.Command, after.Args) {
		if i := slices.Index(own, token); i >= 0 {
			own = slices.Delete(own, i, i+1)
			continue
		}
		parts = append(parts, token)
	}
	for _, e := range after.Env {
		usual := slices.Contains([]string{api.EnvCertFile, api.EnvKeyFile, api.EnvCAFile}, e.Name)
		if !usual && indexEnv(before, e.Name) < 0 {
			parts = append(parts, e.Name+"="+e.Value)
		}
	}
	if len(parts) == 0 {
		return "files"
	}
	return strings.NewReplacer(api.DefaultMountPath, "…", `"`, "'").Replace(strings.Join(parts, " "))
}

func notesOf(r Report) string {
	var out []string
	for _, n := range r.Notes {
		out = append(out, string(n.Reason))
	}
	if len(out) == 0 {
		return "-"
	}
	return strings.Join(out, ", ")
}

func sortedKeys(m map[string]string) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
