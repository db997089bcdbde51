//go:build gitops

package gitops

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	argoNamespace = "argocd"
	argoAccount   = "argocd-application-controller"
	argoUser      = "system:serviceaccount:argocd:argocd-application-controller"
	applications  = "argoproj.io/v1alpha1"
)

// argo is Argo CD's application controller and repository server, with a repository.
type argo struct {
	repositories string            // a directory with one of each application
	revision     map[string]string // that was delivered, by application
}

// newArgo starts Argo CD. It has the health check of deploy/gitops.
func newArgo(t *testing.T) *argo {
	t.Helper()
	clusterAdmin(t, argoNamespace, argoAccount)
	crds := filepath.Join(moduleDir(t, argoModule, "github.com/argoproj/argo-cd/v3"), "manifests", "crds")
	for _, name := range []string{"application-crd.yaml", "appproject-crd.yaml", "applicationset-crd.yaml"} {
		crd, err := os.ReadFile(filepath.Join(crds, name))
		require.NoError(t, err)
		applyFile(t, crd)
	}
	configureArgo(t)
	const verify = "git-verify-wrapper.sh" // its image has it in PATH; files of a module cannot be run
	script, err := os.ReadFile(filepath.Join(moduleDir(t, argoModule, "github.com/argoproj/argo-cd/v3"), "hack", verify))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, verify), script, 0o755))

	work := workDir(t)
	a := &argo{repositories: filepath.Join(work, "repositories"), revision: map[string]string{}}

	redis := "127.0.0.1:" + freePort(t)
	_, redisPort, _ := strings.Cut(redis, ":")
	server := exec.Command("/usr/bin/redis-server", "--bind", "127.0.0.1", "--port", redisPort, "--save", "", "--appendonly", "no", "--dir", "/")
	server.SysProcAttr = &syscall.SysProcAttr{Chroot: filepath.Join(dir, "redis")}
	server.Dir = "/"
	launch(t, "redis-server", server)

	repositories, metrics := freePort(t), freePort(t)
	a.launch(t, work, "argocd-repo-server", "--address=127.0.0.1", "--port="+repositories, "--metrics-address=127.0.0.1", "--metrics-port="+metrics,
		"--disable-tls", "--client-ca-path=", "--redis="+redis, "--logformat=text").answers(t, "http://127.0.0.1:"+metrics+"/healthz")
	metrics = freePort(t)
	a.launch(t, work, "argocd-application-controller", "--namespace="+argoNamespace, "--metrics-port="+metrics, "--repo-server=127.0.0.1:"+repositories,
		"--repo-server-plaintext", "--redis="+redis, "--logformat=text", "--persist-resource-health", "--self-heal-backoff-timeout-seconds=0", "--app-resync-jitter=0").
		answers(t, "http://127.0.0.1:"+metrics+"/healthz")
	return a
}

// launch runs a program of Argo CD.
func (a *argo) launch(t *testing.T, work, name string, args ...string) *process {
	t.Helper()
	cmd := exec.Command(filepath.Join(dir, "argocd"), args...)
	cmd.Dir = work
	cmd.Env = append(os.Environ(),
		"ARGOCD_BINARY_NAME="+name, "ARGOCD_FAKE_IN_CLUSTER=true", "KUBECONFIG="+kubeconfigOf(t, argoNamespace, argoAccount),
		"ARGOCD_GPG_ENABLED=false", "ARGOCD_ASK_PASS_SOCK="+filepath.Join(work, "ask-pass.sock"), "ARGOCD_PLUGINSOCKFILEPATH="+work,
		"ARGOCD_TLS_DATA_PATH="+work, "ARGOCD_SSH_DATA_PATH="+work, "TMPDIR="+work, "HOME="+work, "PATH="+dir+":"+os.Getenv("PATH"))
	return launch(t, name, cmd)
}

// configureArgo makes the objects that Argo CD's manifests have for its settings.
func configureArgo(t *testing.T) {
	t.Helper()
	labels := map[string]string{"app.kubernetes.io/part-of": "argocd"}
	project := object(applications, "AppProject", argoNamespace, "default")
	project.Object["spec"] = map[string]any{
		"sourceRepos":              []any{"*"},
		"destinations":             []any{map[string]any{"namespace": "*", "server": "*"}},
		"clusterResourceWhitelist": []any{map[string]any{"group": "*", "kind": "*"}},
	}
	for _, obj := range []client.Object{
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: argoNamespace, Name: "argocd-cm", Labels: labels}, Data: argoSettings(t)},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: argoNamespace, Name: "argocd-secret", Labels: labels}, Data: map[string][]byte{"server.secretkey": []byte("of nobody")}},
		project,
	} {
		require.NoError(t, admin.Create(t.Context(), obj))
	}
}

// argoSettings are those of Argo CD's own manifests, and what deploy/gitops adds to them.
func argoSettings(t *testing.T) map[string]string {
	t.Helper()
	settings := map[string]string{}
	for _, file := range []string{
		filepath.Join(moduleDir(t, argoModule, "github.com/argoproj/argo-cd/v3"), "manifests", "base", "config", "argocd-cm.yaml"),
		"../../../deploy/gitops/argocd-cm.yaml",
	} {
		maps.Copy(settings, configMapData(t, file))
	}
	return settings
}

func (a *argo) user() string { return argoUser }
func (a *argo) own() string  { return "argoproj.io" }

func git(t *testing.T, repository string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = repository
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=test", "GIT_AUTHOR_EMAIL=test@example.com",
		"GIT_COMMITTER_NAME=test", "GIT_COMMITTER_EMAIL=test@example.com")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "git %v\n%s", args, out)
	return strings.TrimSpace(string(out))
}

// commit makes the files the content of the application's repository, and returns the revision.
func (a *argo) commit(t *testing.T, app application) string {
	t.Helper()
	root := filepath.Join(a.repositories, app.name)
	require.NoError(t, os.MkdirAll(root, 0o755))
	git(t, root, "init", "--quiet", "--initial-branch=main")
	git(t, root, "rm", "-r", "--quiet", "--ignore-unmatch", ".")
	for name, content := range app.files {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(root, name), content, 0o644))
	}
	git(t, root, "add", "--all")
	git(t, root, "commit", "--quiet", "--allow-empty", "--message=change")
	return git(t, root, "rev-parse", "HEAD")
}

func (a *argo) deliver(t *testing.T, app application) {
	t.Helper()
	a.revision[app.name] = a.commit(t, app)
	obj := object(applications, "Application", argoNamespace, app.name)
	obj.SetFinalizers([]string{"resources-finalizer.argocd.argoproj.io"})
	spec := map[string]any{
		"project":     "default",
		"source":      map[string]any{"repoURL": "file://" + filepath.Join(a.repositories, app.name), "targetRevision": "main", "path": "."},
		"destination": map[string]any{"server": "https://kubernetes.default.svc"},
		"syncPolicy": map[string]any{
			"automated": map[string]any{"prune": true, "selfHeal": true},
			"retry":     map[string]any{"limit": int64(-1), "backoff": map[string]any{"duration": "1s", "maxDuration": "1s"}},
		},
	}
	merge(spec, app.spec)
	obj.Object["spec"] = spec
	require.NoError(t, admin.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(obj), client.FieldOwner("test"), client.ForceOwnership))
	require.NoError(t, poll(t.Context(), func() (bool, error) {
		if err := a.look(t.Context(), app.name); err != nil {
			return true, err
		}
		err := a.inSync(t.Context(), app.name)
		return err == nil, err
	}))
}

// merge copies values into to, and what is in mappings of both into the mappings.
func merge(to, from map[string]any) {
	for key, value := range from {
		inner, ok := value.(map[string]any)
		if old, both := to[key].(map[string]any); ok && both {
			merge(old, inner)
			continue
		}
		to[key] = value
	}
}

func (a *argo) get(ctx context.Context, app string) (*unstructured.Unstructured, error) {
	obj := object(applications, "Application", argoNamespace, app)
	return obj, admin.Get(ctx, client.ObjectKeyFromObject(obj), obj)
}

// look asks for a hard refresh, and waits until that is done, and what it led to.
func (a *argo) look(ctx context.Context, app string) error {
	const refresh = "argocd.argoproj.io/refresh"
	obj := object(applications, "Application", argoNamespace, app)
	if err := admin.Patch(ctx, obj, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"hard"}}}`, refresh))); err != nil {
		return err
	}
	return poll(ctx, func() (bool, error) {
		got, err := a.get(ctx, app)
		if err != nil {
			return true, err
		}
		if _, asked := got.GetAnnotations()[refresh]; asked {
			return false, fmt.Errorf("%s is not refreshed", app)
		}
		phase, _, _ := unstructured.NestedString(got.Object, "status", "operationState", "phase")
		_, ordered := got.Object["operation"]
		if phase == "Running" || ordered {
			return false, fmt.Errorf("%s is being synchronized", app)
		}
		return true, nil
	})
}

func (a *argo) inSync(ctx context.Context, app string) error {
	got, err := a.get(ctx, app)
	if err != nil {
		return err
	}
	status, _, _ := unstructured.NestedMap(got.Object, "status")
	sync, _, _ := unstructured.NestedString(status, "sync", "status")
	revision, _, _ := unstructured.NestedString(status, "sync", "revision")
	phase, _, _ := unstructured.NestedString(status, "operationState", "phase")
	if sync == "Synced" && phase == "Succeeded" && revision == a.revision[app] {
		return nil
	}
	message, _, _ := unstructured.NestedString(status, "operationState", "message")
	errs := []error{fmt.Errorf("%s is %s, %s: %s", app, sync, phase, message)}
	resources, _, _ := unstructured.NestedSlice(status, "resources")
	for _, r := range resources {
		if r, ok := r.(map[string]any); ok && r["status"] != "Synced" {
			errs = append(errs, fmt.Errorf("%v %v is %v", r["kind"], r["name"], r["status"]))
		}
	}
	conditions, _, _ := unstructured.NestedSlice(status, "conditions")
	for _, c := range conditions {
		errs = append(errs, fmt.Errorf("%v", c))
	}
	return errors.Join(errs...)
}

// health returns that of an object of the application, and its message.
func (a *argo) health(ctx context.Context, app, kind, name string) (status, message string, err error) {
	got, err := a.get(ctx, app)
	if err != nil {
		return "", "", err
	}
	resources, _, _ := unstructured.NestedSlice(got.Object, "status", "resources")
	i := slices.IndexFunc(resources, func(r any) bool {
		of, ok := r.(map[string]any)
		return ok && of["kind"] == kind && of["name"] == name
	})
	if i < 0 {
		return "", "", fmt.Errorf("%s has no %s %s", app, kind, name)
	}
	health, _, _ := unstructured.NestedStringMap(resources[i].(map[string]any), "health")
	return health["status"], health["message"], nil
}

// abandon deletes the Application, and nothing of what it delivered: a namespace of it could
// not go, as the API server has an APIService that nobody answers for.
func (a *argo) abandon(t *testing.T, app string) {
	t.Helper()
	obj := object(applications, "Application", argoNamespace, app)
	require.NoError(t, admin.Patch(t.Context(), obj, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
	a.remove(t, app)
}

func (a *argo) remove(t *testing.T, app string) {
	t.Helper()
	obj := object(applications, "Application", argoNamespace, app)
	require.NoError(t, admin.Delete(t.Context(), obj))
	isGone(t, obj)
}
