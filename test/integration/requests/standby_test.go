package requests

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// A replica that waits holds what it will need: when it begins to lead, it lists nothing but
// the requests for certificates, of which there are few at a time.
func TestAStandbyListsBeforeItLeads(t *testing.T) {
	leases := admin.CoordinationV1().Leases(api.DefaultNamespace)
	other, long := "somebody else", int32(3600)
	lease, err := leases.Create(t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "servingcert-signer"},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &other, LeaseDurationSeconds: &long,
			AcquireTime: &metav1.MicroTime{Time: time.Now()}, RenewTime: &metav1.MicroTime{Time: time.Now()},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	released := false
	release := func(ctx context.Context) {
		if !released {
			lease.Spec, released = coordinationv1.LeaseSpec{}, true
			_, err := leases.Update(ctx, lease, metav1.UpdateOptions{})
			require.NoError(t, err)
		}
	}
	t.Cleanup(func() { release(context.Background()) }) // t.Context is over by then
	events, err := plane.AuditEvents()
	require.NoError(t, err)
	before := len(events)

	ns := newNamespace(t, true)
	newService(t, ns, "web", hasSecret("web-tls"))
	startSigner(t, "--leader-elect=true") // and waits until it is ready
	// Its own Secrets; those of others, of which one cache holds the metadata, and the
	// conventional ones; the CA's; the CA's two ConfigMaps.
	expected := []string{"configmaps", "configmaps", "namespaces", "secrets", "secrets", "secrets", "secrets", "services"}
	harness.Eventually(t, func() error {
		if held := listed(t, before); !slices.Equal(held, expected) {
			return fmt.Errorf("the replica that waits holds %s, want %s", held, expected)
		}
		return nil
	})
	events, err = plane.AuditEvents()
	require.NoError(t, err)
	before = len(events)

	_, err = admin.CoreV1().Secrets(ns).Get(t.Context(), "web-tls", metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err), "one leads, the other waits: %v", err)
	release(t.Context())
	harness.Eventually(t, func() error {
		_, err := admin.CoreV1().Secrets(ns).Get(t.Context(), "web-tls", metav1.GetOptions{})
		return err
	})
	harness.Eventually(t, func() error {
		if !slices.Contains(listed(t, before), "certificatesigningrequests") {
			return errors.New("the leader does not hold the requests")
		}
		return nil
	})
	for _, resource := range listed(t, before) {
		assert.Contains(t, []string{"certificatesigningrequests", "podcertificaterequests"}, resource)
	}
}

// listed returns the resources of which the signer has begun to hold the objects since so many
// requests, sorted: by a list, or by a watch that begins with one.
func listed(t *testing.T, before int) []string {
	t.Helper()
	events, err := plane.AuditEvents()
	require.NoError(t, err)
	var resources []string
	for _, e := range events[before:] {
		if e.Verb == "watch" && e.Stage == "ResponseStarted" && strings.Contains(e.RequestURI, "sendInitialEvents=true") || isList(e) {
			resources = append(resources, e.Object.Resource)
		}
	}
	slices.Sort(resources)
	return resources
}

// isList reports whether objects are listed for a cache. The signer also looks, page by page,
// whether there are certificates of an earlier CA.
func isList(e controlplane.AuditEvent) bool {
	return e.Verb == "list" && !strings.Contains(e.RequestURI, "limit=")
}
