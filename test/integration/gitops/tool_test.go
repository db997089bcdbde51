//go:build gitops

package gitops

import (
	"context"
	"fmt"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/deploy"
	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// tool keeps the cluster as a repository says.
type tool interface {
	// deliver commits the files of the application and returns when the tool has applied
	// them.
	deliver(t *testing.T, app application)
	// look has the tool compare the cluster with the repository, and correct it, now.
	look(ctx context.Context, app string) error
	// inSync returns nil if the tool finds the cluster as the repository says.
	inSync(ctx context.Context, app string) error
	// remove deletes the application with all that it made.
	remove(t *testing.T, app string)
	// user is who it is for the API server, and own the API group of its own objects.
	user() string
	own() string
}

// application is what a tool is given.
type application struct {
	name  string
	files map[string][]byte // by path
	// spec is merged into the spec of the Application or Kustomization.
	spec map[string]any
}

// writes are the requests with which the tool has written since the beginning, other than its own objects.
func writes(t *testing.T, tool tool) []controlplane.AuditEvent {
	t.Helper()
	events, err := plane.AuditEvents()
	require.NoError(t, err)
	var found []controlplane.AuditEvent
	for _, e := range events {
		if e.User.Username != tool.user() || !slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, e.Verb) || isDryRun(e) {
			continue
		}
		if slices.Contains([]string{tool.own(), "events.k8s.io", "coordination.k8s.io", "authorization.k8s.io", "authentication.k8s.io"}, e.Object.Group) ||
			e.Object.Resource == "events" || isOwnNamespace(e.Object.Namespace) {
			continue
		}
		found = append(found, e)
	}
	return found
}

// changed are those of the requests that changed something since a time. Flux reads an object, then asks what applying
// it would make of it, and applies it if that differs: also if something else has changed in between, such as by the
// rotator's restart of a Deployment. The API server then changes nothing, and keeps the time of what Flux has applied.
func changed(t *testing.T, requests []controlplane.AuditEvent, since time.Time) []string {
	t.Helper()
	var found []string
	for _, e := range requests {
		uri, err := url.Parse(e.RequestURI)
		require.NoError(t, err)
		kind, err := admin.RESTMapper().KindFor(schema.GroupVersionResource{Group: e.Object.Group, Resource: e.Object.Resource})
		require.NoError(t, err)
		obj := object(kind.GroupVersion().String(), kind.Kind, e.Object.Namespace, e.Object.Name)
		err = admin.Get(t.Context(), client.ObjectKeyFromObject(obj), obj)
		manager := uri.Query().Get("fieldManager")
		as := slices.IndexFunc(obj.GetManagedFields(), func(m metav1.ManagedFieldsEntry) bool {
			return m.Manager == manager && m.Operation == metav1.ManagedFieldsOperationApply && m.Subresource == ""
		})
		if e.Verb == "patch" && err == nil && as >= 0 && obj.GetManagedFields()[as].Time.Time.Before(since.Truncate(time.Second)) {
			continue
		}
		found = append(found, fmt.Sprintf("%s %s (%d)", e.Verb, e.RequestURI, e.Status.Code))
	}
	return found
}

func isOwnNamespace(name string) bool { return name == fluxNamespace || name == argoNamespace }

func isDryRun(e controlplane.AuditEvent) bool {
	uri, err := url.Parse(e.RequestURI)
	return err == nil && uri.Query().Get("dryRun") == "All"
}

// undisturbed runs what happens in the cluster while the tool looks at the applications
// again and again. It must find each as the repository says when it is over, and have
// written nothing.
func undisturbed(t *testing.T, tool tool, apps []string, happens func()) {
	t.Helper()
	before, since := len(writes(t, tool)), time.Now()
	ctx, stop := context.WithCancel(t.Context())
	var looking sync.WaitGroup
	var failed error
	looking.Go(func() {
		for ctx.Err() == nil && failed == nil {
			for _, app := range apps {
				if err := tool.look(ctx, app); err != nil && ctx.Err() == nil {
					failed = err
				}
			}
		}
	})
	defer looking.Wait()
	defer stop()
	happens()
	stop()
	looking.Wait()
	require.NoError(t, failed)
	for range 2 {
		for _, app := range apps {
			require.NoError(t, tool.look(t.Context(), app))
			assert.NoError(t, tool.inSync(t.Context(), app))
		}
	}
	assert.Empty(t, changed(t, writes(t, tool)[before:], since), "the tool has written")
}

// object is one of a kind that is not in a Go type here.
func object(apiVersion, kind, namespace, name string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(schema.FromAPIVersionAndKind(apiVersion, kind))
	obj.SetNamespace(namespace)
	obj.SetName(name)
	return obj
}

// applyFile applies the objects of a manifest.
func applyFile(t *testing.T, manifest []byte) {
	t.Helper()
	objects, err := deploy.Decode(manifest)
	require.NoError(t, err)
	require.NoError(t, deploy.ApplyObjects(t.Context(), admin, "test", objects))
	for _, obj := range objects {
		if obj.GetKind() != "CustomResourceDefinition" {
			continue
		}
		harness.Eventually(t, func() error {
			if err := admin.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
				return err
			}
			if status, _ := conditionOf(obj, "Established"); status != "True" {
				return fmt.Errorf("CRD %s is not established", obj.GetName())
			}
			return nil
		})
	}
}

// conditionOf returns the status and the message of a condition.
func conditionOf(obj *unstructured.Unstructured, conditionType string) (status, message string) {
	all, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	for _, c := range all {
		if c, ok := c.(map[string]any); ok && c["type"] == conditionType {
			return fmt.Sprint(c["status"]), fmt.Sprintf("%v: %v", c["reason"], c["message"])
		}
	}
	return "", ""
}

// isGone waits until the object is deleted.
func isGone(t *testing.T, obj client.Object) {
	t.Helper()
	harness.Eventually(t, func() error {
		err := admin.Get(t.Context(), client.ObjectKeyFromObject(obj), obj)
		if err == nil {
			return fmt.Errorf("%s %s is still there", obj.GetObjectKind().GroupVersionKind().Kind, obj.GetName())
		}
		return client.IgnoreNotFound(err)
	})
}

// moduleDir returns where the source of a module is that one of ours requires.
func moduleDir(t *testing.T, ours, module string) string {
	t.Helper()
	list := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module)
	list.Dir = "../../../" + ours
	list.Env = append(list.Environ(), "GOFLAGS=", "GOWORK=off")
	out, err := list.Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(out))
}

// poll waits until what is true, for as long as harness.Eventually does.
func poll(ctx context.Context, what func() (bool, error)) error {
	var last error
	for end := time.Now().Add(harness.Soon); time.Now().Before(end); {
		done, err := what()
		if done {
			return err
		}
		last = err
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(2 * harness.Tick):
		}
	}
	return fmt.Errorf("after %s: %w", harness.Soon, last)
}
