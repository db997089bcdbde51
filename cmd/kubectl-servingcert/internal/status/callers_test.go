package status

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/proxy"
	"github.com/servingcert/servingcert/pkg/proxy/clients"
)

// db is a Service with a list of clients.
func db(list string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "data", Name: "db", Annotations: map[string]string{api.AnnotationSecretName: "db-tls", api.AnnotationClients: list}},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "db"}, Ports: []corev1.ServicePort{{Port: 5432, TargetPort: intstr.FromString("sc-tls-5432")}}},
	}
}

// called returns a caller with an identity, that was last seen that long ago.
func called(namespace, account string, last time.Duration) clients.Caller {
	return clients.Caller{Caller: proxy.Caller{ID: pki.SPIFFEID{TrustDomain: "example.com", Namespace: namespace, ServiceAccount: account}}, First: before(last + time.Hour), Last: before(last), Connections: 2}
}

// anonymous returns a caller without an identity.
func anonymous(address string, last time.Duration) clients.Caller {
	return clients.Caller{Caller: proxy.Caller{Without: proxy.NoCertificate}, Address: netip.MustParseAddr(address), First: before(last + time.Hour), Last: before(last), Connections: 1, Refused: 1}
}

// refusedOnly is a caller that was never admitted.
func refusedOnly(c clients.Caller) clients.Caller {
	c.Connections, c.Refused = 0, 3
	return c
}

// dbPods returns the situation of pods of db that record for that long, each with the callers of one list.
func dbPods(svc *corev1.Service, looked time.Duration, callers ...[]clients.Caller) ClientsSituation {
	k := ClientsSituation{Namespace: "data", Service: "db", Object: svc, Ports: []string{"sc-tls-5432"}, Window: week}
	for i, list := range callers {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "db"}, Annotations: map[string]string{api.AnnotationAdmits: "sc-tls-5432=open"}}}
		k.Pods = append(k.Pods, ProxyPod{
			Name: string(rune('a' + i)), Listens: k.Ports, Admission: AdmissionOf(pod, []*corev1.Service{svc}, k.Ports),
			Answer: clients.Answer{Guarded: []clients.PortCallers{{Name: "sc-tls-5432", Since: before(looked), Callers: list}}},
		})
	}
	return k
}

func TestVerdictOnCallers(t *testing.T) {
	type callers = []clients.Caller
	one := func(c ...clients.Caller) []callers { return []callers{c} }
	for name, c := range map[string]struct {
		list    string
		looked  time.Duration
		callers []callers
		change  func(*ClientsSituation)
		verdict string
		advice  string
	}{
		"all listed, watching": {"watch, shop/cart", week, one(called("shop", "cart", time.Hour)), nil, ClientsNone,
			"the list admits all clients that the running pods have seen in the last 7 days: take watch out of annotation servingcert.dev/clients"},
		"all listed":    {"shop/*", week, one(called("shop", "cart", time.Hour)), nil, ClientsNone, "the list admits all clients that the running pods have seen in the last 7 days"},
		"nobody called": {"watch", week, one(), nil, ClientsNone, ""},
		"not listed": {"watch, shop/cart", week, []callers{{called("shop", "cart", time.Hour)}, {called("shop", "old", time.Hour)}}, nil, ClientsLeft,
			"without watch, the list would refuse shop/old, seen in the last 7 days: add them to annotation servingcert.dev/clients, or move them away"},
		"not listed, refused": {"shop/cart", week, one(refusedOnly(called("shop", "old", time.Hour))), nil, ClientsLeft,
			"the list refuses shop/old, seen in the last 7 days: add them to annotation servingcert.dev/clients, or move them away"},
		"not listed, long ago": {"watch, shop/cart", week, one(called("shop", "old", week)), nil, ClientsNone, ""},
		"without an identity": {"watch, any", week, one(anonymous("10.0.0.9", time.Hour)), nil, ClientsLeft,
			"without watch, the list would refuse clients without an identity, seen in the last 7 days: unknown: no pod has its address: let them connect (" + api.Documentation + "connect.md)"},
		"too soon": {"watch, any", time.Hour, one(called("shop", "cart", time.Minute)), nil, ClientsTooSoon, "the list admits all clients since 2026-03-01 11:00:00, which is less than 7 days ago"},
		"no answer": {"watch, any", week, one(), func(k *ClientsSituation) { k.Pods = append(k.Pods, ProxyPod{Name: "b", Err: "refused"}) }, ClientsUnknown,
			"not all pods of the Service have answered, so there may be clients that the list refuses"},
		"a pod without a list": {"watch, any", week, one(), func(k *ClientsSituation) { k.Pods = append(k.Pods, ProxyPod{Name: "b", Listens: k.Ports}) }, ClientsUnknown,
			"pods without a list for this port, which admit all clients and do not record who calls: 1. Roll out those that are older than the trust domain"},
		"a pod that has not read the list yet": {"watch, any", week, one(), func(k *ClientsSituation) { k.Pods[0].Guarded = nil }, ClientsUnknown, ""},
		"a pod without the port":               {"watch, any", week, one(), func(k *ClientsSituation) { k.Pods = append(k.Pods, ProxyPod{Name: "b", Listens: []string{"sc-tls-1"}}) }, ClientsNone, ""},
		"only pods without the port":           {"watch, any", week, nil, func(k *ClientsSituation) { k.Pods = []ProxyPod{{Name: "b", Listens: []string{"sc-tls-1"}}} }, ClientsUnknown, "no running pod of the Service has this port yet, so who calls is not recorded: roll out the pods, and run this command again"},
		"no pod":                               {"watch, any", week, nil, nil, ClientsUnknown, "no running pod of the Service has a proxy yet, so who calls is not recorded: roll out the pods, and run this command again"},
		"identities that are no longer listed": {"watch, any", week, one(), func(k *ClientsSituation) {
			k.Pods[0].Guarded[0].Evicted = proxy.Evicted{Clients: 2, Last: before(time.Hour)}
		}, ClientsUnknown, "the proxies no longer list all identities of the last 7 days, as others were seen later: the list may refuse one of them"},
		"identities that were not seen for long": {"watch, any", week, one(), func(k *ClientsSituation) {
			k.Pods[0].Guarded[0].Evicted = proxy.Evicted{Clients: 2, Last: before(week)}
		}, ClientsNone, ""},
		"strangers that are no longer listed": {"watch, any", week, one(), func(k *ClientsSituation) {
			k.Pods[0].Guarded[0].EvictedStrangers = proxy.Evicted{Clients: 2, Last: before(time.Hour)}
		}, ClientsLeft, "without watch, the list would refuse clients without an identity, seen in the last 7 days: addresses that the proxies no longer list, as others were seen later: let them connect (" + api.Documentation + "connect.md)"},
		"a port past the proxy": {"watch, any", week, one(), func(k *ClientsSituation) {
			k.Direct = map[string][]string{"5432": {"port 5432 (targetPort 5432)"}, "1": {"port 1 (targetPort 1)"}}
		}, ClientsUnknown, "the Service also has port 5432 (targetPort 5432), which leads to the program and not through the proxy, so its clients are not recorded, and no list refuses them: set its targetPort to sc-tls-5432, or remove it"},
		"not valid": {"shop", week, one(), nil, ClientsNone, ""},
	} {
		k := dbPods(db(c.list), c.looked, c.callers...)
		if c.change != nil {
			c.change(&k)
		}
		got := ClientsOf(k, noon)
		require.Len(t, got.Guarded, 1, name)
		assert.Equal(t, c.verdict, got.Guarded[0].Verdict, name)
		assert.NotEmpty(t, got.Guarded[0].Advice, name)
		if c.advice != "" {
			assert.Equal(t, c.advice, got.Guarded[0].Advice, name)
		}
		assert.Equal(t, c.verdict == ClientsNone && name != "not valid", got.Clear(), name)
		assert.Equal(t, c.verdict == ClientsNone && name != "not valid", got.Refuses() == "", name)
	}
}

// Callers of several pods are one, and judged by the lists of all Services of the pods.
func TestCallersAreNamed(t *testing.T) {
	k := dbPods(db("watch, shop/cart"), week, []clients.Caller{called("shop", "cart", time.Minute), called("batch", "report", 2*time.Hour), anonymous("10.0.0.7", time.Hour)}, []clients.Caller{called("shop", "cart", time.Hour), anonymous("10.0.0.8", time.Hour)})
	k.Places = []Place{located("10.0.0.7", "shop Deployment/old", 9*time.Hour), located("10.0.0.8", "shop Deployment/old", 9*time.Hour)}
	got := ClientsOf(k, noon).Guarded[0]
	assert.Equal(t, []Caller{
		{Name: "shop/cart", First: before(2 * time.Hour), Last: before(time.Minute), Connections: 4, Admitted: true, Recent: true},
		{Name: "no identity: shop Deployment/old", Addresses: []string{"10.0.0.7", "10.0.0.8"}, First: before(2 * time.Hour), Last: before(time.Hour), Connections: 2, Refused: 2, Reasons: []string{"no_certificate"}, Recent: true},
		{Name: "batch/report", First: before(3 * time.Hour), Last: before(2 * time.Hour), Connections: 2, Reasons: []string{"not_listed"}, Recent: true},
	}, got.Callers)
	assert.Equal(t, 2, got.Pods)
	assert.True(t, got.Watch)

	other := db("batch/*")
	other.Name = "reports"
	for i := range k.Pods {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "db"}}}
		k.Pods[i].Admission = AdmissionOf(pod, []*corev1.Service{k.Object, other}, k.Ports)
	}
	assert.True(t, ClientsOf(k, noon).Guarded[0].Callers[2].Admitted)
}

func TestUnusedEntries(t *testing.T) {
	svc := db("watch, shop/cart, batch/*, any, shop/gone, shop/refused, shop/late")
	k := dbPods(svc, 2*week, []clients.Caller{called("shop", "cart", time.Hour), called("shop", "late", week)}, []clients.Caller{called("batch", "report", week-time.Second), refusedOnly(called("shop", "refused", time.Hour))})
	got := ClientsOf(k, noon).List
	assert.Empty(t, got.NotSeen)
	assert.Equal(t, before(week), *got.Since)
	assert.Equal(t, []string{"shop/gone", "shop/late", "shop/refused"}, got.Unused())
	last := before(time.Hour)
	assert.Equal(t, ClientsEntry{Entry: "any", Last: &last}, got.Entries[0])

	k.Pods[1].Guarded[0].Since = before(30 * time.Minute)
	got = ClientsOf(k, noon).List
	assert.Equal(t, before(30*time.Minute), *got.Since, "which is what was seen of all pods")
	assert.Len(t, got.Unused(), 6)

	for name, change := range map[string]func(*ClientsSituation){
		"not all pods of the Service have answered":      func(k *ClientsSituation) { k.Pods[0] = ProxyPod{Name: "a", Err: "refused"} },
		"not all pods record the callers of sc-tls-5432": func(k *ClientsSituation) { k.Pods[0].Admission = nil },
		"no pod records the callers of sc-tls-5432":      func(k *ClientsSituation) { k.Pods = nil },
		"the proxies no longer list all callers of sc-tls-5432": func(k *ClientsSituation) {
			k.Pods[0].Guarded[0].Evicted = proxy.Evicted{Clients: 1, Last: before(time.Hour)}
		},
	} {
		k := dbPods(svc, 2*week, nil, nil)
		change(&k)
		got := ClientsOf(k, noon).List
		assert.Equal(t, name, got.NotSeen)
		assert.Nil(t, got.Since)
		assert.Empty(t, got.Unused())
	}
	assert.Contains(t, ClientsOf(dbPods(db("shop"), week, nil), noon).List.Invalid, "NAMESPACE/NAME")
	plain := db("")
	delete(plain.Annotations, api.AnnotationClients)
	assert.Nil(t, ClientsOf(dbPods(plain, week, nil), noon).List)
	assert.Empty(t, ClientsOf(dbPods(plain, week, nil), noon).Guarded, "it is open")
	k = dbPods(plain, week, []clients.Caller{called("shop", "cart", time.Hour)})
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "db"}, Annotations: map[string]string{api.AnnotationAdmits: "sc-tls-5432=shop/other"}}}
	k.Pods[0].Admission = AdmissionOf(pod, nil, k.Ports)
	assert.Equal(t, ClientsLeft, ClientsOf(k, noon).Guarded[0].Verdict, "it keeps the list of a Service that is gone")
}
