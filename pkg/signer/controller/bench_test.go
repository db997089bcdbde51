package controller

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/facts"
	"github.com/servingcert/servingcert/pkg/signer"
)

// listOf lists the given objects, each decoded separately as from the API server.
func listOf(list func() k8sruntime.Object) toolscache.ListerWatcher {
	return listOnly{&toolscache.ListWatch{
		ListWithContextFunc:  func(context.Context, metav1.ListOptions) (k8sruntime.Object, error) { return list(), nil },
		WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return watch.NewFake(), nil },
	}}
}

// listOnly does not support streaming lists.
type listOnly struct{ *toolscache.ListWatch }

func (listOnly) IsWatchListSemanticsUnSupported() bool { return true }

// BenchmarkCaches measures the memory of the caches for a Service and its Secret, once the signer of
// the certificate is known.
func BenchmarkCaches(b *testing.B) {
	const n = 10_000
	ca := testCA(b)
	issued := issueBy(b, ca, wantedBy(service("web")))
	fingerprint := signer.FactsOf(managed(issued), "").Leaf.Fingerprint
	uids := make([]string, n)
	for i := range uids {
		uids[i] = string(uuid.NewUUID())
	}
	typicalService := func(i int) *corev1.Service {
		svc := service(fmt.Sprintf("service-%05d", i), api.AnnotationSecretName, fmt.Sprintf("service-%05d-tls", i))
		svc.ResourceVersion = fmt.Sprint(1_000_000 + i)
		svc.UID = types.UID(uids[i])
		ready := state.Ready{Secret: svc.Name + "-tls", Request: wantedBy(svc).Hash(), Leaf: fingerprint}
		svc.Status.Conditions = state.Say(metav1.Condition{Type: api.ConditionReady, Status: metav1.ConditionTrue, Reason: "Issued", Message: svc.Name + ".shop.svc, " + svc.Name + ".shop.svc.cluster.local"}, ready).Both()
		return svc
	}
	typicalSecret := func(i int) *corev1.Secret {
		secret := managed(issued)
		secret.Name, secret.UID, secret.ResourceVersion = fmt.Sprintf("service-%05d-tls", i), uuid.NewUUID(), fmt.Sprint(2_000_000+i)
		secret.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: fmt.Sprintf("service-%05d", i), UID: types.UID(uids[i]), BlockOwnerDeletion: new(false)}}
		return secret
	}
	heap := func() float64 {
		runtime.GC()
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return float64(stats.HeapAlloc)
	}
	for b.Loop() {
		before := heap()
		services, err := facts.NewInformerOf(listOf(func() k8sruntime.Object {
			list := &corev1.ServiceList{Items: make([]corev1.Service, n)}
			for i := range list.Items {
				decode(b, typicalService(i), &list.Items[i])
			}
			return list
		}), serviceOptions(false))
		require.NoError(b, err)
		start(b, services)
		middle := heap()
		secrets, err := facts.NewInformerOf(listOf(func() k8sruntime.Object {
			list := &corev1.SecretList{Items: make([]corev1.Secret, n)}
			for i := range list.Items {
				decode(b, typicalSecret(i), &list.Items[i])
			}
			return list
		}), secretOptions(api.DefaultInstance))
		require.NoError(b, err)
		start(b, secrets)
		for f := range secrets.All() {
			require.NotNil(b, f.SignedBy(ca))
		}
		after := heap()
		b.ReportMetric((middle-before)/n, "B/Service")
		b.ReportMetric((after-middle)/n, "B/Secret")
		runtime.KeepAlive(services)
		runtime.KeepAlive(secrets)
	}
}

// decode decodes the object into into, as from the API server.
func decode(b *testing.B, object interface{ Marshal() ([]byte, error) }, into interface{ Unmarshal([]byte) error }) {
	data, err := object.Marshal()
	require.NoError(b, err)
	require.NoError(b, into.Unmarshal(data))
}
