// Package memory_test holds the programs to what docs/limits.md says that they remember.
package memory_test

import (
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/facts"
	"github.com/servingcert/servingcert/pkg/mutate/admission"
	"github.com/servingcert/servingcert/pkg/rotator/cluster"
	"github.com/servingcert/servingcert/pkg/signer"
)

// processes are what each process keeps of a Service.
func processes(accounts *facts.Accounts, share api.Share) map[string]func(*corev1.Service) any {
	reduced := func(svc, kept *corev1.Service) *corev1.Service {
		if !accounts.Admit(svc, func() int64 { return api.SizeOfService(svc) }) {
			return api.Reduce(kept, share)
		}
		return kept
	}
	webhook, _ := admission.CacheOptions(api.DefaultNamespace, false, share)
	var inWebhook toolscache.TransformFunc
	for object, by := range webhook.ByObject {
		if _, ok := object.(*corev1.Service); ok {
			inWebhook = by.Transform
		}
	}
	strip := func(transform toolscache.TransformFunc, svc *corev1.Service) *corev1.Service {
		kept, err := transform(svc)
		if err != nil {
			panic(err)
		}
		return kept.(*corev1.Service)
	}
	return map[string]func(*corev1.Service) any{
		"signer": func(svc *corev1.Service) any {
			return reduced(svc, api.StripService(svc, signer.Keep(svc)))
		},
		"rotator": func(svc *corev1.Service) any {
			return reduced(svc, strip(facts.ServiceTransform(false, cluster.Keep, nil), svc))
		},
		"webhook": func(svc *corev1.Service) any { return strip(inWebhook, svc) },
	}
}

// object is a pointer to a T that can be encoded as the API server sends it.
type object[T any] interface {
	*T
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

// retained returns how many bytes the values need that keep returns of n objects, each decoded.
func retained[T any, O object[T]](t *testing.T, n int, object func(i int) O, keep func(O) any) int64 {
	t.Helper()
	heap := func() int64 {
		runtime.GC()
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return int64(stats.HeapAlloc)
	}
	kept := map[int]any{} // as caches have them
	before := heap()
	for i := range n {
		encoded, err := object(i).Marshal()
		require.NoError(t, err)
		decoded := O(new(T))
		require.NoError(t, decoded.Unmarshal(encoded))
		kept[i] = keep(decoded)
	}
	after := heap()
	runtime.KeepAlive(kept)
	return after - before
}

func service(i int) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: fmt.Sprintf("checkout-backend-%05d", i), UID: types.UID(fmt.Sprintf("5f0e5c1e-4f3c-4a8e-9b1e-%012d", i)), ResourceVersion: strconv.Itoa(1_000_000 + i),
			CreationTimestamp: metav1.Unix(1e9+int64(i), 0),
			Labels:            map[string]string{"app": "checkout", "team": "shop"},
			Annotations: map[string]string{
				api.AnnotationSecretName: fmt.Sprintf("checkout-backend-%05d-tls", i), api.AnnotationDuration: "720h",
				"kubectl.kubernetes.io/last-applied-configuration": strings.Repeat("x", 1000),
			},
		},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": "checkout", "tier": "backend"}, ClusterIP: "10.96.13.37", ClusterIPs: []string{"10.96.13.37"}, Type: corev1.ServiceTypeClusterIP,
			Ports: []corev1.ServicePort{{Name: "https", Port: 443, TargetPort: intstr.FromInt32(8443), Protocol: corev1.ProtocolTCP}},
		},
		Status: corev1.ServiceStatus{Conditions: []metav1.Condition{
			{Type: api.ConditionReady, Status: metav1.ConditionTrue, Reason: "Issued", Message: strings.Repeat("m", 250)},
			{Type: api.ConditionServing, Status: metav1.ConditionTrue, Reason: "Current", Message: strings.Repeat("m", 150)},
		}},
	}
}

// labelled returns a Service whose selector has so many labels.
func labelled(n int) func(int) *corev1.Service {
	selector := map[string]string{}
	for j := range n {
		selector[fmt.Sprintf("%s-%05d", strings.Repeat("k", 50), j)] = strings.Repeat("v", 63)
	}
	return func(i int) *corev1.Service {
		svc := service(i)
		svc.Spec.Selector = selector
		return svc
	}
}

// largest returns a Service of which as much is kept as of any.
func largest(i int) *corev1.Service {
	svc := service(i)
	svc.Spec.Selector = map[string]string{}
	for j := range api.MaxSelector {
		svc.Spec.Selector[fmt.Sprintf("%s/%s-%05d", strings.Repeat("d", 253), strings.Repeat("k", 57), j)] = strings.Repeat("v", 63)
	}
	svc.Spec.Ports = nil
	protocol := strings.Repeat("d", 253) + "/" + strings.Repeat("p", 63)
	for j := range int32(api.MaxPorts) {
		svc.Spec.Ports = append(svc.Spec.Ports, corev1.ServicePort{Name: fmt.Sprintf("https-%s-%05d", strings.Repeat("p", 50), j), Port: j, TargetPort: intstr.FromString(strings.Repeat("p", 15)), AppProtocol: &protocol})
	}
	svc.Annotations = map[string]string{}
	for _, key := range api.OnService.Annotations() {
		svc.Annotations[key] = strings.Repeat("x", 30<<10)
	}
	svc.Annotations[api.AnnotationSecretName] = fmt.Sprintf("checkout-backend-%05d-tls", i)
	delete(svc.Annotations, api.AnnotationKeySource)
	svc.Status.Conditions = nil
	for _, kind := range []string{api.ConditionReady, api.ConditionServing, api.ConditionFlags} {
		svc.Status.Conditions = append(svc.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: strings.Repeat("R", 300<<10), Message: strings.Repeat("m", 300<<10)})
	}
	return svc
}

// rowOfShare is about more Services than there is room for.
const rowOfShare = "one namespace, whatever its Services"

// TestMemory holds what is kept in memory to the table of docs/limits.md, and what is reserved
// for it to what it is.
func TestMemory(t *testing.T) {
	const kib = 1 << 10
	share := api.ShareOf(0)
	for _, tc := range []struct {
		row  string
		n    int
		make func(int) *corev1.Service
	}{
		{"one Service, the largest", 1, largest},
		{"97 Services with 10 000 labels in their selectors", 97, labelled(10_000)},
		{"10 000 ordinary Services of one namespace", 10_000, service},
		{rowOfShare, 150, largest},
	} {
		t.Run(tc.row, func(t *testing.T) {
			limit := documented(t, tc.row) * kib
			for name := range processes(nil, share) {
				accounts := facts.NewAccounts("Service", share)
				got := retained(t, tc.n, tc.make, processes(accounts, share)[name])
				t.Logf("%s: %d KiB, of %d", name, got/kib, limit/kib)
				assert.LessOrEqual(t, got, limit, name)
				if tc.row != rowOfShare {
					assert.LessOrEqual(t, got, int64(tc.n)*api.SizeOfService(tc.make(tc.n-1)), "%s: what is reserved", name)
				}
				if name == "rotator" { // which keeps most of a Service
					assert.Greater(t, 4*got, limit, "the page says far more than what is needed")
				}
			}
		})
	}
	reduced, err := api.Reduce(api.StripService(largest(0), signer.Keep(largest(0))), share).Marshal()
	require.NoError(t, err)
	assert.LessOrEqual(t, len(reduced), api.MaxReduced)
	assert.LessOrEqual(t, 10_000*api.SizeOfService(service(0)), share.Namespace, "10 000 ordinary Services of one namespace have room")
}

// documented returns the number of KiB in a row of the page.
func documented(t *testing.T, row string) int64 {
	t.Helper()
	page, err := os.ReadFile("../../docs/limits.md")
	require.NoError(t, err)
	found := regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta(row) + ` \| ([0-9 ]+) KiB \|`).FindSubmatch(page)
	require.NotNil(t, found, "docs/limits.md has no row %q", row)
	n, err := strconv.ParseInt(strings.ReplaceAll(string(found[1]), " ", ""), 10, 64)
	require.NoError(t, err)
	return n
}
