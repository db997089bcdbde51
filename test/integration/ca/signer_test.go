package ca

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/ca"
	cacontroller "github.com/servingcert/servingcert/pkg/ca/controller"
	"github.com/servingcert/servingcert/test/integration/harness"
)

const (
	waitFor = harness.Soon
	tick    = harness.Tick
)

// rules are what pkg/ca needs in the namespace of the signer.
var rules = []rbacv1.PolicyRule{
	{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"create", "list", "watch"}},
	{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{api.CASecretName}, Verbs: []string{"get", "update"}},
	{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{api.CAImportName}, Verbs: []string{"get"}},
	{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{api.CAInterimName}, Verbs: []string{"get", "update", "delete"}},
	{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{api.CAStatusName}, Verbs: []string{"get", "list", "watch", "create", "patch", "update"}},
	{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{api.ExtraRootsName}, Verbs: []string{"get", "list", "watch"}},
	{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{api.TrustStatusName}, Verbs: []string{"get"}},
	{APIGroups: []string{"events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
}

// newNamespace makes a namespace with a ServiceAccount that has exactly rules,
// and returns the connection of that account.
func newNamespace(t *testing.T) (namespace string, signer *rest.Config) {
	t.Helper()
	ctx := t.Context()
	ns, err := admin.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "ca-"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	meta := metav1.ObjectMeta{Name: "signer", Namespace: ns.Name}
	_, err = admin.CoreV1().ServiceAccounts(ns.Name).Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = admin.RbacV1().Roles(ns.Name).Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = admin.RbacV1().RoleBindings(ns.Name).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "signer"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Name: "signer", Namespace: ns.Name}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	cfg, err := plane.ServiceAccountConfig(ctx, ns.Name, "signer")
	require.NoError(t, err)
	return ns.Name, cfg
}

// signer is one running process as far as pkg/ca is concerned.
type signer struct {
	*cacontroller.Controller
	changes atomic.Int32
	log     *harness.Log
	clock   harness.Clock
	ended   func() error
}

// startSigner runs a controller until stop or the end of the test.
func startSigner(t *testing.T, namespace string, cfg *rest.Config, change ...func(*cacontroller.Config)) *signer {
	t.Helper()
	return startSignerThrough(t, interceptor.Funcs{}, namespace, cfg, change...)
}

// startSignerThrough has the signer's writes pass through funcs.
func startSignerThrough(t *testing.T, funcs interceptor.Funcs, namespace string, cfg *rest.Config, change ...func(*cacontroller.Config)) *signer {
	t.Helper()
	s := &signer{log: &harness.Log{}}
	limits := api.DefaultLimits()
	config := cacontroller.Config{
		Namespace:    namespace,
		Parameters:   ca.Parameters{MaxDuration: limits.MaxDuration, Constraints: limits.Constraints(), Domain: limits.ClusterDomain},
		Clock:        s.clock.Now,
		ManagedExist: func(context.Context) (bool, error) { return false, nil },
		OnChange:     func() { s.changes.Add(1) },
	}
	for _, fn := range change {
		fn(&config)
	}
	mgr := newManager(t, cfg, s.log, funcs)
	var err error
	s.Controller, err = cacontroller.Setup(mgr, config)
	require.NoError(t, err)
	s.ended = harness.RunManager(mgr)
	t.Cleanup(func() {
		s.stop(t)
		if t.Failed() {
			t.Logf("log of the signer:\n%s", s.log)
		}
	})
	return s
}

func newManager(t *testing.T, cfg *rest.Config, log *harness.Log, funcs interceptor.Funcs) manager.Manager {
	t.Helper()
	yes := true
	mgr, err := ctrl.NewManager(rest.CopyConfig(cfg), manager.Options{
		Metrics:    ctrlmetricsserver.Options{BindAddress: "0"},
		Logger:     logr.FromSlogHandler(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Controller: config.Controller{SkipNameValidation: &yes},
		NewClient: func(cfg *rest.Config, options client.Options) (client.Client, error) {
			inner, err := client.NewWithWatch(cfg, options)
			return interceptor.NewClient(inner, funcs), err
		},
	})
	require.NoError(t, err)
	return mgr
}

func (s *signer) stop(t *testing.T) {
	t.Helper()
	require.NoError(t, s.ended())
}

// eventuallyReason waits until the signer cannot sign for the reason; "" waits
// until it can.
func (s *signer) eventuallyReason(t *testing.T, reason string) {
	t.Helper()
	require.Eventually(t, func() bool { return s.reason() == reason }, waitFor, tick, "the reason did not become %q", reason)
}

func (s *signer) reason() string {
	_, err := s.Authority()
	if notReady := (*ca.NotReadyError)(nil); errors.As(err, &notReady) {
		return notReady.Reason()
	}
	return ""
}

// objects reads and writes as a cluster administrator.
type objects struct {
	namespace string
	client    kubernetes.Interface
}

func (o objects) secret(t *testing.T) *corev1.Secret {
	t.Helper()
	s, err := o.client.CoreV1().Secrets(o.namespace).Get(t.Context(), api.CASecretName, metav1.GetOptions{})
	require.NoError(t, err)
	return s
}

func (o objects) status(t *testing.T) *corev1.ConfigMap {
	t.Helper()
	cm, err := o.client.CoreV1().ConfigMaps(o.namespace).Get(t.Context(), api.CAStatusName, metav1.GetOptions{})
	require.NoError(t, err)
	return cm
}

// eventuallyStatus waits until the status ConfigMap exists and is as ok says.
func (o objects) eventuallyStatus(t *testing.T, ok func(*corev1.ConfigMap) bool) *corev1.ConfigMap {
	t.Helper()
	var last *corev1.ConfigMap
	require.Eventually(t, func() bool {
		cm, err := o.client.CoreV1().ConfigMaps(o.namespace).Get(t.Context(), api.CAStatusName, metav1.GetOptions{})
		last = cm
		return err == nil && ok(cm)
	}, waitFor, tick, "the status ConfigMap is not as it should be: %v", last)
	return last
}

func (o objects) deleteSecret(t *testing.T) {
	t.Helper()
	require.NoError(t, o.client.CoreV1().Secrets(o.namespace).Delete(t.Context(), api.CASecretName, metav1.DeleteOptions{}))
}

func (o objects) createSecret(t *testing.T, data map[string][]byte) {
	t.Helper()
	_, err := o.client.CoreV1().Secrets(o.namespace).Create(t.Context(),
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: api.CASecretName}, Data: data}, metav1.CreateOptions{})
	require.NoError(t, err)
}
