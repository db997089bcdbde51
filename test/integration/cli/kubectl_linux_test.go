package cli

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
)

// TestImpersonation: with --as, every verb has the rights of the other user and no more.
func TestImpersonation(t *testing.T) {
	s, ns := newSystem(t), newNamespace(t, "shop", nil)
	s.ca(t, stable())
	makeService(t, ns, "web")
	nobody := []string{"--as", "nobody-" + ns}
	for _, args := range [][]string{
		{"status", "--system-namespace", s.namespace, "-n", ns},
		{"verify", "--system-namespace", s.namespace, "-n", ns, "web"},
		{"renew", "-n", ns, "web", "--wait=false"},
		{"rotate-ca", "-n", s.namespace, "--reason", "x", "--wait=false"},
		{"inject", "--live", "-o", "report", "-n", ns},
		{"version", "--system-namespace", s.namespace},
	} {
		r := cli(t, append(args, nobody...)...)
		assert.Equal(t, 1, r.code, args)
		assert.Regexp(t, `User "nobody-\S+" cannot`, r.err, args)
	}
	permit(t, ns, "nobody-"+ns, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"services"}, Verbs: []string{"get", "list", "patch"}})
	r := cli(t, append([]string{"renew", "-n", ns, "web", "--wait=false"}, nobody...)...)
	assert.Zero(t, r.code, r.err)
}

// TestFieldManager: Flux takes over what managers wrote whose name begins with kubectl.
func TestFieldManager(t *testing.T) {
	s, ns := newSystem(t), newNamespace(t, "shop", map[string]string{api.LabelInject: api.InjectEnabled})
	s.ca(t, stable())
	makeService(t, ns, "web")
	require.Zero(t, cli(t, "renew", "-n", ns, "web", "--wait=false").code)
	require.Zero(t, cli(t, "rotate-ca", "-n", s.namespace, "--reason", "x", "--wait=false").code)
	svc, err := admin.CoreV1().Services(ns).Get(t.Context(), "web", metav1.GetOptions{})
	require.NoError(t, err)
	assert.Equal(t, "servingcert-cli", managerOf(svc.ManagedFields, api.AnnotationRenewAfter))
	assert.Equal(t, "servingcert-cli", managerOf(s.status(t).ManagedFields, api.AnnotationRotate))
}

// managerOf returns who wrote an annotation.
func managerOf(entries []metav1.ManagedFieldsEntry, annotation string) string {
	for _, e := range entries {
		var fields struct {
			Metadata struct {
				Annotations map[string]any `json:"f:annotations"`
			} `json:"f:metadata"`
		}
		if e.FieldsV1 != nil && json.Unmarshal(e.FieldsV1.GetRawBytes(), &fields) == nil && fields.Metadata.Annotations["f:"+annotation] != nil {
			return e.Manager
		}
	}
	return ""
}

func TestStatusAsKubectlPrints(t *testing.T) {
	s, ns := newSystem(t), newNamespace(t, "shop", nil)
	s.ca(t, stable())
	for _, name := range []string{"api", "web"} {
		makeService(t, ns, name)
		_, err := admin.CoreV1().Services(ns).Patch(t.Context(), name, types.MergePatchType, []byte(`{"metadata":{"labels":{"app":"`+name+`"}}}`), metav1.PatchOptions{})
		require.NoError(t, err)
	}
	require.NoError(t, setIssued(t.Context(), ns, "web", hash(1)))
	status := func(more ...string) string {
		t.Helper()
		r := cli(t, append([]string{"status", "--system-namespace", s.namespace, "-n", ns}, more...)...)
		assert.Zero(t, r.code, r.err)
		return r.out
	}
	assert.Equal(t, "service/api\nservice/web\n", status("-o", "name"))
	assert.Equal(t, "service/web\n", status("-o", "name", "-l", "app=web"))
	assert.Regexp(t, `^shop-\S+ +api +- .*\nshop-\S+ +web +True .*\n$`, status("--no-headers"))
	assert.Contains(t, status("-o", "wide"), hash(1), "the whole fingerprint")
	var data struct{ APIVersion, Kind string }
	require.NoError(t, json.Unmarshal([]byte(status("-o", "json")), &data))
	assert.Equal(t, "cli.servingcert.dev/v1 Status", data.APIVersion+" "+data.Kind)

	t.Run("watched", func(t *testing.T) {
		c := start(t, plane.KubeconfigFile(), "status", "--system-namespace", s.namespace, "-n", ns, "--no-headers", "-w")
		c.shown(t, "web ")
		require.NoError(t, setReady(t.Context(), ns, "api", metav1.ConditionFalse, "SigningFailed", "no"))
		c.shown(t, "SigningFailed")
		require.NoError(t, c.cmd.Process.Signal(os.Interrupt))
		r, err := c.wait()
		require.NoError(t, err)
		assert.Zero(t, r.code, r.err)
	})
}

func TestNamesAreCompleted(t *testing.T) {
	ns := newNamespace(t, "shop", nil)
	makeService(t, ns, "web")
	_, err := admin.CoreV1().Services(ns).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "plain"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 443}}}}, metav1.CreateOptions{})
	require.NoError(t, err)
	for _, args := range [][]string{{"status"}, {"verify"}, {"renew"}} {
		assert.Equal(t, "web\n:4\n", cli(t, append(append([]string{"__completeNoDesc"}, args...), "-n", ns, "")...).out, args)
	}
	assert.Equal(t, ":4\n", cli(t, "__completeNoDesc", "renew", "-n", ns, "web", "").out, "it was given already")
	assert.Contains(t, cli(t, "__completeNoDesc", "status", "-n", "shop").out, ns+"\n")
}

func TestVersionOfBothSides(t *testing.T) {
	s := newSystem(t)
	for name, image := range map[string]string{"signer-0": "example.com:5000/signer:v1.2.3", "signer-1": "example.com:5000/signer:v1.2.3", "signer-2": "example.com:5000/signer@sha256:0000000000000000000000000000000000000000000000000000000000000000"} {
		_, err := admin.CoreV1().Pods(s.namespace).Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app.kubernetes.io/part-of": "servingcert", "app.kubernetes.io/name": "signer"}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "signer", Image: image}}}}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	r := cli(t, "version", "--system-namespace", s.namespace)
	assert.Zero(t, r.code, r.err)
	assert.Regexp(t, `(?m)^Plugin +\S+ \(commit `, r.out)
	assert.Regexp(t, `(?m)^Kubernetes +v1\.`, r.out)
	assert.Regexp(t, `(?m)^signer +v1\.2\.3 \(2 pods of image example\.com:5000/signer:v1\.2\.3\)$`, r.out)
	assert.Regexp(t, `(?m)^signer +unknown \(1 pods of image example\.com:5000/signer@sha256:0+\)$`, r.out)
}

// TestColoursOnlyOnATerminal: what a terminal gets says the same without colours.
func TestColoursOnlyOnATerminal(t *testing.T) {
	s, ns := newSystem(t), newNamespace(t, "shop", nil)
	s.ca(t, with(stable(), api.CAWarning, "X: y"))
	makeService(t, ns, "web")
	require.NoError(t, setIssued(t.Context(), ns, "web", hash(1)))
	args := []string{"status", "--system-namespace", s.namespace, "-n", ns, "--no-headers"}
	plain := cli(t, args...).out
	assert.NotContains(t, plain, "\x1b")
	assert.Equal(t, plain, onTerminal(t, []string{"NO_COLOR=1", "TERM=xterm"}, args...))
	assert.Equal(t, plain, onTerminal(t, []string{"NO_COLOR=", "TERM=dumb"}, args...))
	coloured := onTerminal(t, []string{"NO_COLOR=", "TERM=xterm"}, args...)
	assert.Contains(t, coloured, "\x1b[32mTrue\x1b[0m")
	assert.Contains(t, onTerminal(t, []string{"NO_COLOR=", "TERM=xterm"}, args[:len(args)-1]...), "\x1b[33mWarning\x1b[0m")
	assert.Equal(t, plain, sequences.ReplaceAllString(coloured, ""))

	verify := []string{"verify", "--system-namespace", s.namespace, "-n", ns, "web"}
	assert.Contains(t, onTerminal(t, []string{"NO_COLOR=", "TERM=xterm", "LC_ALL=C.UTF-8"}, verify...), "\x1b[31m✗\x1b[0m \x1b[31mFAILED\x1b[0m")
	assert.NotContains(t, onTerminal(t, []string{"NO_COLOR=", "TERM=xterm", "LC_ALL=C"}, verify...), "✗")
}

// TestProgressIsDrawnOnATerminal: and gone when it is over.
func TestProgressIsDrawnOnATerminal(t *testing.T) {
	s, ns := newSystem(t), newNamespace(t, "shop", map[string]string{api.LabelInject: api.InjectEnabled})
	s.ca(t, stable())
	makeService(t, ns, "web")
	renew := []string{"renew", "--system-namespace", s.namespace, "-n", ns, "web", "--timeout", "1s"}
	assert.Regexp(t, `^\r\x1b\[K\[\.{24}\] 0/1 certificates are renewed\r\x1b\[K`, onTerminal(t, []string{"TERM=xterm"}, renew...))
	assert.Empty(t, onTerminal(t, []string{"TERM=dumb"}, renew...))
	assert.Empty(t, cli(t, renew...).out)
}

// TestKubectlCompletes: kubectl runs the program under another name.
func TestKubectlCompletes(t *testing.T) {
	ns := newNamespace(t, "shop", nil)
	makeService(t, ns, "web")
	cmd := exec.CommandContext(t.Context(), filepath.Join(binaries, "kubectl_complete-servingcert"), "status", "-n", ns, "")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+plane.KubeconfigFile())
	out, err := cmd.Output()
	require.NoError(t, err)
	assert.Equal(t, "web\n:4\n", string(out))
}
