//go:build long

package signer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/signer/cfssl"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// throttle makes a user whose writes to Secrets and to the status of Services API Priority
// and Fairness lets through one at a time, and refuses otherwise. The FlowSchema and the
// PriorityLevelConfiguration have the user's name. It returns the UID of the latter.
func throttle(t *testing.T, name string) types.UID {
	t.Helper()
	subject := rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{subject},
	}
	level := &flowcontrolv1.PriorityLevelConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: flowcontrolv1.PriorityLevelConfigurationSpec{
			Type: flowcontrolv1.PriorityLevelEnablementLimited,
			Limited: &flowcontrolv1.LimitedPriorityLevelConfiguration{
				NominalConcurrencyShares: new(int32(0)), BorrowingLimitPercent: new(int32(0)),
				LimitResponse: flowcontrolv1.LimitResponse{Type: flowcontrolv1.LimitResponseTypeReject},
			},
		},
	}
	schema := &flowcontrolv1.FlowSchema{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: flowcontrolv1.FlowSchemaSpec{
			PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: name},
			MatchingPrecedence:         10,
			Rules: []flowcontrolv1.PolicyRulesWithSubjects{{
				Subjects: []flowcontrolv1.Subject{{Kind: flowcontrolv1.SubjectKindUser, User: &flowcontrolv1.UserSubject{Name: name}}},
				ResourceRules: []flowcontrolv1.ResourcePolicyRule{{
					Verbs: []string{"create", "patch", "update"}, APIGroups: []string{""}, Resources: []string{"secrets", "services/status"},
					Namespaces: []string{flowcontrolv1.NamespaceEvery},
				}},
			}},
		},
	}
	_, err := admin.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{})
	require.NoError(t, err)
	level, err = admin.FlowcontrolV1().PriorityLevelConfigurations().Create(t.Context(), level, metav1.CreateOptions{})
	require.NoError(t, err)
	schema, err = admin.FlowcontrolV1().FlowSchemas().Create(t.Context(), schema, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		c, err := client.New(plane.AdminConfig(), client.Options{})
		require.NoError(t, err)
		require.NoError(t, harness.Remove[client.Object](context.WithoutCancel(t.Context()), c, schema, level, binding))
	})
	return level.UID
}

// waitThrottled waits until the client may write, and the API server counts its writes for the
// priority level.
func waitThrottled(t *testing.T, httpClient *http.Client, namespace string, level types.UID) {
	t.Helper()
	harness.Eventually(t, func() error {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPatch, plane.Host()+"/api/v1/namespaces/"+namespace+"/secrets/none", strings.NewReader("{}"))
		if err != nil {
			return err
		}
		request.Header.Set("Content-Type", string(types.MergePatchType))
		response, err := httpClient.Do(request)
		if err != nil {
			return err
		}
		of := response.Header.Get(flowcontrolv1.ResponseHeaderMatchedPriorityLevelConfigurationUID)
		if response.StatusCode != http.StatusNotFound || of != string(level) {
			err = fmt.Errorf("a write of priority level %q is answered by %s, want %q and 404", of, response.Status, level)
		}
		return errors.Join(err, response.Body.Close())
	})
}

// occupant is a request that creates a Secret whose text has no end before it is closed.
type occupant struct {
	end  io.Closer
	done chan error
}

func newOccupant(ctx context.Context, httpClient *http.Client, namespace string) (*occupant, error) {
	body, end := io.Pipe()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, plane.Host()+"/api/v1/namespaces/"+namespace+"/secrets", body)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	o := &occupant{end, make(chan error, 1)}
	go func() {
		response, err := httpClient.Do(request)
		if err == nil {
			err = response.Body.Close()
		}
		o.done <- err
	}()
	return o, nil
}

// occupy has a client use the only seat that a priority level without shares has, until
// release is called. It returns once the API server refuses the client's other writes.
func occupy(t *testing.T, cfg *rest.Config, namespace string, level types.UID) (release func()) {
	t.Helper()
	httpClient, err := rest.HTTPClientFor(cfg)
	require.NoError(t, err)
	waitThrottled(t, httpClient, namespace, level)
	client, err := kubernetes.NewForConfig(cfg)
	require.NoError(t, err)
	seated, err := newOccupant(t.Context(), httpClient, namespace)
	require.NoError(t, err)
	harness.Eventually(t, func() error {
		select {
		case err := <-seated.done: // the write below was quicker, and had the seat
			if err != nil {
				return err
			}
			if seated, err = newOccupant(t.Context(), httpClient, namespace); err != nil {
				return err
			}
		default:
		}
		err := client.CoreV1().RESTClient().Patch(types.MergePatchType).Namespace(namespace).Resource("secrets").Name("none").
			Body([]byte("{}")).MaxRetries(0).Do(t.Context()).Error()
		if !apierrors.IsTooManyRequests(err) {
			return fmt.Errorf("a write is answered by %w, want 429", err)
		}
		return nil
	})
	return func() {
		require.NoError(t, seated.end.Close())
		require.NoError(t, <-seated.done)
	}
}

// unthrottle gives the priority level seats for all.
func unthrottle(t *testing.T, name string) {
	t.Helper()
	_, err := admin.FlowcontrolV1().PriorityLevelConfigurations().Patch(t.Context(), name, types.MergePatchType,
		[]byte(`{"spec":{"limited":{"nominalConcurrencyShares":100}}}`), metav1.PatchOptions{})
	require.NoError(t, err)
}

// A signer whose writes are refused by API Priority and Fairness asks as seldom as it is
// told to, and issues everything, once, as soon as it may.
func TestASignerThatIsThrottledWaitsAndRecovers(t *testing.T) {
	const n = 20
	ns, user := newNamespace(t), newName(t)
	level := throttle(t, user)
	cfg, err := plane.UserConfig(user)
	require.NoError(t, err)
	release := occupy(t, cfg, ns, level)
	ca := newGeneration(t, 1, api.DefaultLimits().Constraints(), nil)
	sign, err := cfssl.NewLocal()
	require.NoError(t, err)
	h := &held{changed: make(chan struct{})}
	h.ca.Store(ca.signing())
	for i := range n {
		makeService(t, ns, fmt.Sprintf("web-%d", i))
	}

	count := requests{of: ns}
	cfg.Wrap(count.wrap)
	began := time.Now()
	r, _ := startAs(t, cfg, h, sign, api.DefaultLimits())
	writes := 0
	harness.Eventually(t, func() error {
		for _, times := range count.take() {
			writes += times
		}
		if writes < 3*heldWorkers {
			return fmt.Errorf("%d writes so far", writes)
		}
		return nil
	})
	// The answer says "Retry-After: 1": a worker asks once a second at most, on a busy machine less often.
	seconds := int(time.Since(began)/time.Second) + 1
	assert.LessOrEqual(t, writes, seconds*heldWorkers, "in %d s", seconds)
	secrets, err := admin.CoreV1().Secrets(ns).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	assert.Empty(t, secrets.Items)

	release()
	unthrottle(t, user)
	for i := range n {
		name := fmt.Sprintf("web-%d", i)
		waitServed(t, ns, name, name+"-tls", ca.signing())
	}
	assert.Equal(t, n, strings.Count(r.log.String(), "certificate issued"))
}
