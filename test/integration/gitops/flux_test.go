//go:build gitops

package gitops

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	fluxNamespace = "flux-system"
	fluxUser      = "system:serviceaccount:flux-system:kustomize-controller"
	kustomization = "kustomize.toolkit.fluxcd.io/v1"
)

// flux is a kustomize-controller, and archives of repositories for it.
type flux struct {
	url string // of the archives

	mu       sync.Mutex
	archives map[string][]byte // by path
	looks    int
}

// newFlux starts the kustomize-controller as its ServiceAccount.
func newFlux(t *testing.T) *flux {
	t.Helper()
	clusterAdmin(t, fluxNamespace, "kustomize-controller")
	crds := filepath.Join(moduleDir(t, fluxModule, "github.com/fluxcd/kustomize-controller"), "config", "crd", "bases")
	crd, err := os.ReadFile(filepath.Join(crds, "kustomize.toolkit.fluxcd.io_kustomizations.yaml"))
	require.NoError(t, err)
	applyFile(t, crd)
	for _, kind := range []string{"GitRepository", "OCIRepository", "Bucket", "ExternalArtifact"} {
		applyFile(t, sourceCRD(kind))
	}

	f := &flux{archives: map[string][]byte{}}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := &http.Server{Handler: f, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	f.url = "http://" + listener.Addr().String()

	health := freePort(t)
	cmd := exec.Command(filepath.Join(dir, "kustomize-controller"),
		"--metrics-addr=127.0.0.1:"+freePort(t), "--health-addr=127.0.0.1:"+health, "--log-encoding=console", "--interval-jitter-percentage=0",
		"--requeue-dependency=1s")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfigOf(t, fluxNamespace, "kustomize-controller"), "RUNTIME_NAMESPACE="+fluxNamespace, "TMPDIR="+workDir(t))
	launch(t, "kustomize-controller", cmd).answers(t, "http://127.0.0.1:"+health+"/readyz")
	return f
}

// sourceCRD is the CRD of a kind of source-controller, without its schema.
func sourceCRD(kind string) []byte {
	plural := map[string]string{"GitRepository": "gitrepositories", "OCIRepository": "ocirepositories", "Bucket": "buckets", "ExternalArtifact": "externalartifacts"}[kind]
	return fmt.Appendf(nil, `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[1]s.source.toolkit.fluxcd.io}
spec:
  group: source.toolkit.fluxcd.io
  names: {kind: %[2]s, listKind: %[2]sList, plural: %[1]s}
  scope: Namespaced
  versions:
    - name: v1
      served: true
      storage: true
      subresources: {status: {}}
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`, plural, kind)
}

func (f *flux) user() string { return fluxUser }
func (f *flux) own() string  { return "kustomize.toolkit.fluxcd.io" }

// ServeHTTP implements http.Handler.
func (f *flux) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	archive, ok := f.archives[r.URL.Path]
	f.mu.Unlock()
	if !ok {
		http.NotFound(w, r)
		return
	}
	_, _ = w.Write(archive)
}

// archive is what source-controller makes of a repository.
func archive(t *testing.T, files map[string][]byte) []byte {
	t.Helper()
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	to := tar.NewWriter(zip)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		require.NoError(t, to.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(files[name]))}))
		_, err := to.Write(files[name])
		require.NoError(t, err)
	}
	require.NoError(t, to.Close())
	require.NoError(t, zip.Close())
	return out.Bytes()
}

// commit publishes the files, and returns the revision.
func (f *flux) commit(t *testing.T, app string, files map[string][]byte) string {
	t.Helper()
	data := archive(t, files)
	sum := sha256.Sum256(data)
	path, revision := fmt.Sprintf("/%s/%x.tar.gz", app, sum), fmt.Sprintf("main@sha1:%x", sum[:20])
	f.mu.Lock()
	f.archives[path] = data
	f.mu.Unlock()

	repository := object("source.toolkit.fluxcd.io/v1", "GitRepository", fluxNamespace, app)
	repository.Object["spec"] = map[string]any{"url": "https://git.example.com/" + app, "interval": "1h"}
	require.NoError(t, admin.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(repository), client.FieldOwner("test"), client.ForceOwnership))
	now := time.Now().UTC().Format(time.RFC3339)
	status := object("source.toolkit.fluxcd.io/v1", "GitRepository", fluxNamespace, app)
	status.Object["status"] = map[string]any{
		"artifact": map[string]any{
			"url": f.url + path, "path": path[1:], "revision": revision, "digest": fmt.Sprintf("sha256:%x", sum), "lastUpdateTime": now, "size": int64(len(data)),
		},
		"conditions": []any{map[string]any{"type": "Ready", "status": "True", "reason": "Succeeded", "message": "stored", "lastTransitionTime": now}},
	}
	require.NoError(t, admin.Status().Apply(t.Context(), client.ApplyConfigurationFromUnstructured(status), client.FieldOwner("test"), client.ForceOwnership))
	return revision
}

// apply commits the application, and does not wait.
func (f *flux) apply(t *testing.T, app application) (revision string) {
	t.Helper()
	revision = f.commit(t, app.name, app.files)
	k := object(kustomization, "Kustomization", fluxNamespace, app.name)
	spec := map[string]any{
		"interval": "1h", "retryInterval": "1s", "timeout": "30s", "prune": true, "path": "./",
		"sourceRef": map[string]any{"kind": "GitRepository", "name": app.name},
	}
	maps.Copy(spec, app.spec)
	k.Object["spec"] = spec
	require.NoError(t, admin.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(k), client.FieldOwner("test"), client.ForceOwnership))
	return revision
}

func (f *flux) deliver(t *testing.T, app application) {
	t.Helper()
	revision := f.apply(t, app)
	require.NoError(t, poll(t.Context(), func() (bool, error) {
		got, err := f.get(t.Context(), app.name)
		if err != nil {
			return false, err
		}
		if applied, _, _ := unstructured.NestedString(got.Object, "status", "lastAppliedRevision"); applied != revision {
			_, message := conditionOf(got, "Ready")
			return false, fmt.Errorf("%s is at revision %q: %s", app.name, applied, message)
		}
		return true, nil
	}))
}

func (f *flux) get(ctx context.Context, app string) (*unstructured.Unstructured, error) {
	k := object(kustomization, "Kustomization", fluxNamespace, app)
	return k, admin.Get(ctx, client.ObjectKeyFromObject(k), k)
}

// look asks as "flux reconcile" does.
func (f *flux) look(ctx context.Context, app string) error {
	f.mu.Lock()
	f.looks++
	token := fmt.Sprint("look-", f.looks)
	f.mu.Unlock()
	k := object(kustomization, "Kustomization", fluxNamespace, app)
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"reconcile.fluxcd.io/requestedAt":%q}}}`, token)
	if err := admin.Patch(ctx, k, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return err
	}
	return poll(ctx, func() (bool, error) {
		got, err := f.get(ctx, app)
		if err != nil {
			return true, err
		}
		handled, _, _ := unstructured.NestedString(got.Object, "status", "lastHandledReconcileAt")
		status, message := conditionOf(got, "Ready")
		if handled == token && status != "Unknown" {
			return true, nil
		}
		return false, fmt.Errorf("%s has handled %q: %s", app, handled, message)
	})
}

func (f *flux) inSync(ctx context.Context, app string) error {
	got, err := f.get(ctx, app)
	if err != nil {
		return err
	}
	if status, message := conditionOf(got, "Ready"); status != "True" {
		return errors.New(message)
	}
	return nil
}

func (f *flux) remove(t *testing.T, app string) {
	t.Helper()
	k := object(kustomization, "Kustomization", fluxNamespace, app)
	require.NoError(t, admin.Delete(t.Context(), k))
	isGone(t, k)
}
