package client

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer/certmanager"
	"github.com/servingcert/servingcert/pkg/signer/issue"
	"github.com/servingcert/servingcert/test/signertest"
)

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// A namespace with any number of Services cannot use all of the limit, and the total is bounded.
func TestRequestsAreBounded(t *testing.T) {
	c := New(Config{Issuer: certmanager.Issuer{Kind: "ClusterIssuer", Name: "vault", Group: certmanager.Group}})
	admitted := func(tenant string) (n int) {
		for i := range 2 * maxPending {
			if c.admit(fmt.Sprint(tenant, i), tenant, epoch) == nil {
				n++
			}
		}
		return n
	}
	assert.Equal(t, maxPending/2, admitted("busy"))
	assert.NoError(t, c.admit("shop", "shop", epoch), "another has room")
	assert.Equal(t, (maxPending/2-1)/2, admitted("more"))
	err := c.admit("one more", "busy", epoch.Add(time.Minute))
	require.ErrorContains(t, err, "too many certificates are pending at ClusterIssuer/vault: the limit is 500, and for one namespace or user half of what the others leave")
	pending := issue.Waiting(err)
	require.NotNil(t, pending, "it is no failure")
	assert.Equal(t, epoch, pending.Since, "it is said from when there was no room")
	assert.NoError(t, c.admit("shop", "shop", epoch), "who has a place keeps it")

	// Each tenant may have one request, up to the limit of all.
	for i := range 2 * maxPending {
		for n := range 2 {
			_ = c.admit(fmt.Sprint("evil-", i, "-", n), fmt.Sprint("evil-", i), epoch)
		}
	}
	assert.Len(t, c.pending, maxAll)
	require.Error(t, c.admit("last", "last", epoch))
	delete(c.pending, "shop")
	require.NoError(t, c.admit("last", "last", epoch))
	assert.True(t, c.full.IsZero())
}

// accepts accepts all writes. It notes the tenant of each request, by name, unless that is nil.
type accepts struct {
	client.Writer
	tenants map[string]string
}

func (a accepts) Create(_ context.Context, o client.Object, _ ...client.CreateOption) error {
	if object, ok := o.(*unstructured.Unstructured); ok && a.tenants != nil {
		r, err := certmanager.FromObject(object.Object)
		if err != nil {
			return err
		}
		a.tenants[r.Name] = r.Tenant()
	}
	return nil
}

func (accepts) Delete(context.Context, client.Object, ...client.DeleteOption) error { return nil }

// What is remembered of a Secret is bounded by the pending requests: neither a Secret without a place nor one whose
// request was deleted is remembered.
func TestOwnersAreBounded(t *testing.T) {
	c := New(Config{Issuer: certmanager.Issuer{Kind: "ClusterIssuer", Name: "vault", Group: certmanager.Group}, Clock: func() time.Time { return signertest.Epoch }, Writer: accepts{}})
	c.unwanted(nil, signertest.Epoch) // all requests are known: none is read
	ca := signertest.CA(t)
	ask := func(secret, name string) {
		wanted := api.Wanted{DNSNames: []string{name}, Params: api.Params{KeyAlgorithm: pki.ECDSAP256, Duration: time.Hour}}
		_, err := c.Issue(t.Context(), types.NamespacedName{Namespace: "busy", Name: secret}, ca, wanted, signertest.Epoch)
		require.NotNil(t, issue.Waiting(err), "%v", err)
		require.LessOrEqual(t, len(c.owners), len(c.pending))
	}
	ask("web", "web.busy.svc")
	first := maps.Clone(c.pending)
	ask("web", "other.busy.svc")
	assert.Len(t, c.pending, 1, "the request before is deleted")
	assert.NotEqual(t, slices.Collect(maps.Keys(first)), slices.Collect(maps.Keys(c.pending)))
	for i := range maxPending {
		_ = c.admit(fmt.Sprint("filler-", i), "busy", signertest.Epoch)
	}
	for i := range 100 {
		ask(fmt.Sprint("more-", i), "web.busy.svc")
	}
	assert.Len(t, c.owners, 1)
	ask("web", "third.busy.svc")
	assert.Len(t, c.owners, 1, "what it replaces makes room")
	c.unwanted(nil, signertest.Epoch.Add(sweepEvery))
	assert.Empty(t, c.pending, "all were deleted")
	assert.Empty(t, c.owners)
}

// Two tenants, or twenty, with as many requests as are allowed do not block another one.
func TestFewTenantsDoNotBlockOthers(t *testing.T) {
	for _, tenants := range []int{2, 20, 400} {
		c := New(Config{})
		for tenant := range tenants {
			for i := range maxPending / tenants * 2 {
				_ = c.admit(fmt.Sprint(tenant, "-", i), fmt.Sprint("evil-", tenant), epoch)
			}
		}
		assert.NoError(t, c.admit("web", "shop", epoch), tenants)
	}
}

// The requests of a user count as theirs, also in the process that leads next.
func TestTheNextLeaderKnowsWhoAsked(t *testing.T) {
	key, err := pki.GenerateKey(pki.ECDSAP256)
	require.NoError(t, err)
	there := map[string]string{}
	leader := func() *Client {
		c := New(Config{Clock: func() time.Time { return epoch }, Writer: accepts{tenants: there}})
		c.unwanted(there, epoch)
		return c
	}
	waits := func(c *Client, tenant, name string) string {
		csr, err := certmanager.NewCSR(key, []string{name}, nil)
		require.NoError(t, err)
		_, err = c.Sign(t.Context(), nil, issue.SigningRequest{CSR: csr, DNSNames: []string{name}, Tenant: tenant})
		require.NotNil(t, issue.Waiting(err), "%v", err)
		return err.Error()
	}
	const busy = "user:system:serviceaccount/csr:csr/" // any text may be a user
	c := leader()
	for i := range maxPending / 2 {
		require.NotContains(t, waits(c, busy, fmt.Sprint(i, ".shop.svc")), "too many")
	}
	require.Len(t, there, maxPending/2)
	for name, c := range map[string]*Client{"same": c, "next": leader()} {
		assert.Contains(t, waits(c, busy, "more.shop.svc"), "too many", name)
		assert.NotContains(t, waits(c, "user:other", name+".shop.svc"), "too many", name)
	}
}

func TestSweepFindsUnusedRequests(t *testing.T) {
	c := New(Config{})
	there := map[string]string{"left": "shop", "waited": "shop"}
	assert.Empty(t, c.unwanted(there, epoch), "of a process before this one: somebody may ask yet")
	assert.True(t, c.swept)
	c.note("waited", "shop", epoch.Add(5*time.Minute))
	require.NoError(t, c.admit("new", "shop", epoch.Add(idle)), "it is being made")
	assert.Equal(t, []string{"left"}, c.unwanted(there, epoch.Add(idle)))
	assert.Contains(t, c.pending, "new")
	delete(there, "waited")
	c.unwanted(there, epoch.Add(idle))
	assert.NotContains(t, c.pending, "waited", "somebody deleted it, and its place is free")
}

func TestFailures(t *testing.T) {
	kind := schema.GroupKind{Group: certmanager.Group, Kind: certmanager.Kind}
	resource := schema.GroupResource{Group: certmanager.Group, Resource: "certificaterequests"}
	for name, c := range map[string]struct {
		err    error
		reason issue.Reason
		says   string
		broken bool
	}{
		"no such kind":   {&meta.NoKindMatchError{GroupKind: kind}, issue.ReasonUnreachable, "is cert-manager installed?", true},
		"not found":      {apierrors.NewNotFound(resource, "x"), issue.ReasonUnreachable, "is cert-manager installed?", true},
		"no answer":      {fmt.Errorf("create: %w", context.DeadlineExceeded), issue.ReasonUnreachable, "does not answer within 10s", true},
		"not allowed":    {apierrors.NewForbidden(resource, "x", errors.New("no right")), issue.ReasonCARefused, "no right", false},
		"not accepted":   {apierrors.NewInvalid(kind, "x", nil), issue.ReasonCARefused, "is invalid", false},
		"out of its way": {apierrors.NewInternalError(errors.New("etcd")), issue.ReasonUnreachable, "etcd", true},
	} {
		err := failure(c.err)
		require.NotNil(t, err, name)
		assert.Equal(t, string(c.reason), err.Reason(), name)
		assert.Contains(t, err.Error(), c.says, name)
		assert.Equal(t, c.broken, err.Broken(), name)
	}
	assert.Nil(t, failure(nil))
}

// After a failure, no request is sent to the API server for some time.
func TestBreakerStopsCallsToAnAPIThatIsNotServed(t *testing.T) {
	now, calls := epoch, 0
	c := New(Config{Clock: func() time.Time { return now }})
	call := func() error {
		return c.call(t.Context(), func(context.Context) error {
			calls++
			return apierrors.NewNotFound(schema.GroupResource{}, "x")
		})
	}
	require.Error(t, call())
	require.ErrorContains(t, call(), "is cert-manager installed?")
	assert.Equal(t, 1, calls)
	require.Error(t, c.Available())
	now = now.Add(time.Second)
	require.NoError(t, c.Available())
	require.Error(t, call())
	assert.Equal(t, 2, calls)
}

// A request for names that are not in the CSR, as for a PodCertificateRequest, is refused: an issuer
// would sign the names in the CSR.
func TestNamesMustBeInTheCSR(t *testing.T) {
	key, err := pki.GenerateKey(pki.ECDSAP256)
	require.NoError(t, err)
	request := func(names ...string) issue.SigningRequest {
		csr, err := certmanager.NewCSR(key, names, nil)
		require.NoError(t, err)
		return issue.SigningRequest{CSR: csr, DNSNames: []string{"a.shop.svc", "b.shop.svc"}}
	}
	pub, err := checkCSR(request("b.shop.svc", "a.shop.svc"))
	require.NoError(t, err)
	assert.Equal(t, key.Public(), pub)
	for _, names := range [][]string{nil, {"a.shop.svc"}, {"a.shop.svc", "b.shop.svc", "c.shop.svc"}} {
		_, err = checkCSR(request(names...))
		require.ErrorContains(t, err, "takes the names from the CSR")
	}
	_, err = checkCSR(issue.SigningRequest{CSR: []byte("x")})
	assert.ErrorContains(t, err, "is not PEM")
}
