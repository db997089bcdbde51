package plan

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/pkg/api"
)

// guardWorld is Service shop/db, whose clients connect: Deployment cart, and further workloads.
type guardWorld struct {
	db      *corev1.Service
	more    []Workload
	objects []Object
	opts    Options
	called  *Called
	pods    []*corev1.Pod // of Deployment db
	old     []*corev1.Pod // of Deployment cart
	args    []string      // of Deployment db
}

func newGuardWorld() *guardWorld {
	return &guardWorld{
		opts: Options{},
		db: &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db", Annotations: map[string]string{api.AnnotationSecretName: "db-tls"}},
			Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "db"}, Ports: []corev1.ServicePort{
				{Name: "pg", Port: 5432, TargetPort: intstr.FromInt32(5432)}, {Name: "pg-tls", Port: 15432, TargetPort: intstr.FromString("sc-tls-5432")},
				{Name: "metrics", Port: 9187, TargetPort: intstr.FromString("metrics")}, // which no pod has
			}},
		},
		pods: []*corev1.Pod{proxyPod("--listen=sc-tls-5432=15444:5432", "--clients=/c")},
	}
}

func proxyPod(args ...string) *corev1.Pod {
	always := corev1.ContainerRestartPolicyAlways
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}, Spec: corev1.PodSpec{InitContainers: []corev1.Container{{Name: api.ProxyContainer, RestartPolicy: &always, Args: args}}}}
}

// client returns a Deployment that refers to the Service. Without an account it has that of the namespace.
func client(name, account, connect string) Workload {
	w := pod(name, map[string]string{"app": name})
	w.Kind, w.Pod.Spec.Containers[0].Args, w.Pod.Spec.ServiceAccountName = "Deployment", []string{"db.shop.svc:5432"}, account
	if connect != "" {
		w.Pod.Annotations = map[string]string{api.AnnotationConnect: connect}
	}
	return w
}

// foreign returns a Deployment of another namespace that refers to the Service.
func foreign(connect string) Workload {
	w := client("evil", "evil", connect)
	w.Namespace, w.Pod.Namespace = "other", "other"
	return w
}

func (w *guardWorld) plan() Plan {
	b := New([]*corev1.Service{w.db}, nil, w.opts)
	server := pod("db", map[string]string{"app": "db"}, 5432)
	server.Kind = "Deployment"
	server.Pod.Spec.Containers[0].Args = w.args
	b.AddWorkload(server)
	for _, p := range w.old {
		b.AddPod("Deployment", "cart", p)
	}
	for _, c := range w.more {
		b.AddWorkload(c)
	}
	for _, o := range w.objects {
		b.AddObject(o)
	}
	for _, p := range w.pods {
		b.AddPod("Deployment", "db", p)
	}
	if w.called != nil {
		b.AddCalled("shop", "db", *w.called)
	}
	return b.Plan()
}

func TestGuard(t *testing.T) {
	list := func(value string) func(*guardWorld) {
		return func(w *guardWorld) { w.db.Annotations[api.AnnotationClients] = value }
	}
	clients := func(all ...Workload) func(*guardWorld) { return func(w *guardWorld) { w.more = all } }
	called := func(refuses string) func(*guardWorld) {
		return func(w *guardWorld) { w.called = &Called{Refuses: refuses} }
	}
	cart := client("cart", "cart", "db:5432")
	older := func(w *guardWorld) { w.old = []*corev1.Pod{proxyPod()} }
	ingress := func(port int) func(*guardWorld) {
		return func(w *guardWorld) {
			w.objects = []Object{{"networking.k8s.io/v1", "Ingress", "shop", "in", map[string]any{"spec": map[string]any{"defaultBackend": map[string]any{"service": map[string]any{"name": "db", "port": map[string]any{"number": float64(port)}}}}}}}
		}
	}
	for name, tt := range map[string]struct {
		change []func(*guardWorld)
		want   *Guard // without what is not exported
		why    string
	}{
		"a client that connects":                             {[]func(*guardWorld){clients(cart)}, &Guard{Wave: 1, Clients: "watch, shop/cart"}, ""},
		"clients, one of which is to connect":                {[]func(*guardWorld){clients(cart, client("report", "", ""))}, &Guard{Wave: 3, Clients: "watch, shop/cart, shop/default", After: []string{"shop/Deployment/report"}}, ""},
		"no client":                                          {nil, nil, ""},
		"no identities":                                      {[]func(*guardWorld){clients(cart), func(w *guardWorld) { w.pods = []*corev1.Pod{proxyPod("--listen=sc-tls-5432=15444:5432")} }}, nil, ""},
		"identities, by the flag":                            {[]func(*guardWorld){clients(cart), func(w *guardWorld) { w.pods, w.opts.TrustDomain = nil, "example.com" }}, &Guard{Wave: 1, Clients: "watch, shop/cart"}, ""},
		"a pod without a list":                               {[]func(*guardWorld){clients(cart), func(w *guardWorld) { w.pods = append(w.pods, proxyPod("--listen=sc-tls-5432=15444:5432")) }}, nil, "pods of Deployment/db have no list of clients"},
		"only ports with TLS":                                {[]func(*guardWorld){clients(cart), func(w *guardWorld) { w.db.Spec.Ports[0].TargetPort = intstr.FromString("sc-tls-5432") }}, &Guard{Wave: 1, Clients: "watch, shop/cart"}, ""},
		"only ports with TLS, and a client does not connect": {[]func(*guardWorld){clients(cart, client("report", "", "")), func(w *guardWorld) { w.db.Spec.Ports[0].TargetPort = intstr.FromString("sc-tls-5432") }}, nil, "Deployment shop/report calls db.shop.svc:5432, and is not known to connect"},
		"a client that speaks TLS": {[]func(*guardWorld){clients(cart, func() Workload {
			c := client("own", "own", "db:5432, db:15432")
			c.Pod.Spec.Containers[0].Args = []string{"https://db.shop.svc:15432"}
			return c
		}())}, nil, "Deployment shop/own calls https://db.shop.svc:15432"},
		"no port with a proxy":           {[]func(*guardWorld){clients(cart), func(w *guardWorld) { w.db.Spec.Ports = w.db.Spec.Ports[2:] }}, nil, ""},
		"a client on its node's network": {[]func(*guardWorld){clients(cart, func() Workload { c := client("agent", "agent", ""); c.Pod.Spec.HostNetwork = true; return c }())}, nil, "Deployment shop/agent does not connect to it: Deployment/agent: "},
		"an Ingress":                     {[]func(*guardWorld){clients(cart), ingress(5432)}, nil, "Ingress shop/in refers to it, and shows no identity"},
		"an Ingress of another port":     {[]func(*guardWorld){clients(cart), ingress(9187)}, &Guard{Wave: 1, Clients: "watch, shop/cart"}, ""},

		"a program of the pod itself":                       {[]func(*guardWorld){clients(cart), func(w *guardWorld) { w.args = []string{"localhost:5432"} }}, &Guard{Wave: 1, Clients: "watch, shop/cart"}, ""},
		"pods of the client are older":                      {[]func(*guardWorld){clients(cart), older}, &Guard{Wave: 2, Clients: "watch, shop/cart", After: []string{"shop/Deployment/cart"}}, ""},
		"only ports with TLS, pods of the client are older": {[]func(*guardWorld){clients(cart), older, func(w *guardWorld) { w.db.Spec.Ports[0].TargetPort = intstr.FromString("sc-tls-5432") }}, nil, "is not known to connect"},
		"too many references": {[]func(*guardWorld){func(w *guardWorld) {
			for i := range MaxReferences + 1 {
				w.more = append(w.more, client(fmt.Sprint("c", i), "cart", "db:5432"))
			}
		}}, nil, "more references than are listed"},
		"too many clients": {[]func(*guardWorld){func(w *guardWorld) {
			for i := range MaxReferences {
				w.more = append(w.more, client(fmt.Sprint("c", i), fmt.Sprintf("a%d.%s", i, strings.Repeat("a", 200)), "db:5432"))
			}
		}}, nil, "servingcert.dev/clients"},

		"a client of another namespace":                      {[]func(*guardWorld){clients(cart, foreign(""))}, &Guard{Wave: 1, Clients: "watch, shop/cart", Refer: []string{"other/evil"}}, ""},
		"only a client of another namespace":                 {[]func(*guardWorld){clients(foreign("db.shop:5432"))}, nil, "only workloads of other namespaces refer to it, which are not listed without a person: other/evil"},
		"it watches, a client of another namespace":          {[]func(*guardWorld){clients(cart, foreign("db.shop:5432")), list("watch,shop/cart"), called("")}, &Guard{Wave: 1, Clients: "shop/cart", Refuses: true, Refer: []string{"other/evil"}}, ""},
		"it watches, one of another namespace cannot":        {[]func(*guardWorld){clients(cart, func() Workload { c := foreign(""); c.Pod.Spec.HostNetwork = true; return c }()), list("watch,shop/cart"), called("")}, &Guard{Wave: 1, Clients: "shop/cart", Refuses: true, Refer: []string{"other/evil"}}, ""},
		"it watches, one of another namespace is to connect": {[]func(*guardWorld){clients(cart, foreign("")), list("watch,shop/cart,other/evil"), called("")}, &Guard{Wave: 1, Clients: "other/evil, shop/cart", Refuses: true}, ""},
		"it watches, many of another namespace": {[]func(*guardWorld){list("watch,shop/cart"), called(""), func(w *guardWorld) {
			for i := range 2 * MaxReferences {
				c := foreign("db.shop:5432")
				c.Name = fmt.Sprint("evil", i)
				w.more = append(w.more, c)
			}
			w.more = append(w.more, cart)
		}}, &Guard{Wave: 1, Clients: "shop/cart", Refuses: true, Refer: []string{"other/evil"}}, ""},

		"it watches, nobody is refused":          {[]func(*guardWorld){clients(cart), list("watch,shop/cart, batch/*"), called("")}, &Guard{Wave: 1, Clients: "batch/*, shop/cart", Refuses: true}, ""},
		"it watches, and nothing refers":         {[]func(*guardWorld){list("watch,batch/*"), called("")}, &Guard{Wave: 1, Clients: "batch/*", Refuses: true}, ""},
		"it watches, some are refused":           {[]func(*guardWorld){clients(cart), list("watch,shop/cart"), called("shop/old")}, nil, "shop/old"},
		"it watches, not asked":                  {[]func(*guardWorld){clients(cart), list("watch,shop/cart")}, nil, "were not asked"},
		"it watches, a client is missing":        {[]func(*guardWorld){clients(cart), list("watch,batch/*"), called("")}, nil, "workloads of its namespace refer to it that the list does not name: shop/cart"},
		"it watches, a client is yet to connect": {[]func(*guardWorld){clients(client("cart", "cart", "")), list("watch,shop/cart"), called("")}, nil, "it has other steps first"},
		"it watches, an Ingress":                 {[]func(*guardWorld){clients(cart), list("watch,shop/cart"), called(""), ingress(5432)}, nil, "Ingress shop/in"},
		"it watches alone":                       {[]func(*guardWorld){list("watch"), called("")}, nil, "no entry beside watch"},
		"it refuses others already":              {[]func(*guardWorld){clients(cart), list("shop/cart"), called("")}, nil, ""},
		"it is not valid":                        {[]func(*guardWorld){clients(cart), list("watch,shop")}, nil, "servingcert.dev/clients"},
		"a pod without a list, watching":         {[]func(*guardWorld){list("watch,batch/*"), called(""), func(w *guardWorld) { w.pods = append(w.pods, proxyPod("--listen=sc-tls-5432=15444:5432")) }}, nil, "have no list of clients"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newGuardWorld()
			for _, change := range tt.change {
				change(w)
			}
			g := w.plan().Services[0].Guard
			switch {
			case tt.why != "":
				require.NotNil(t, g)
				assert.Contains(t, g.Why, tt.why)
				assert.Empty(t, g.Clients)
				assert.Zero(t, g.Wave)
			case tt.want == nil:
				assert.Nil(t, g)
			default:
				require.NotNil(t, g)
				assert.Equal(t, *tt.want, Guard{Wave: g.Wave, Clients: g.Clients, Refuses: g.Refuses, Why: g.Why, After: g.After, Refer: g.Refer})
			}
		})
	}
}

// TestWhoIsNotListed: clients that a person has to add are told apart, with a list that is valid whatever they are called.
func TestWhoIsNotListed(t *testing.T) {
	annotates := func(s Service) (out []Step) {
		for _, step := range s.Steps {
			if strings.HasPrefix(step.Command, "kubectl annotate") {
				out = append(out, step)
			}
		}
		return out
	}
	w := newGuardWorld()
	w.more = []Workload{foreign("db.shop:5432")}
	what := "add those to its list that called, or refer to it, and may do so; this adds all of them"
	assert.Equal(t, []Step{{
		What:    what,
		Command: "kubectl annotate service db -n shop 'servingcert.dev/clients=watch, other/evil'",
		Back:    "kubectl annotate service db -n shop servingcert.dev/clients-",
	}}, annotates(w.plan().Services[0]))
	assert.Nil(t, w.plan().Services[0].CompleteGuard())

	w.more = append(w.more, client("cart", "cart", "db:5432"))
	s := w.plan().Services[0]
	assert.Equal(t, []Step{
		{What: "list its clients: watch admits all others too", Command: "kubectl annotate service db -n shop 'servingcert.dev/clients=watch, shop/cart'", Back: "kubectl annotate service db -n shop servingcert.dev/clients-"},
		{What: what, Command: "kubectl annotate service db -n shop 'servingcert.dev/clients=watch, shop/cart, other/evil' --overwrite", Back: "kubectl annotate service db -n shop 'servingcert.dev/clients=watch, shop/cart' --overwrite"},
	}, annotates(s))
	assert.Equal(t, "watch, shop/cart", texts(at(s.CompleteGuard(), "metadata"), "annotations")[api.AnnotationClients])

	w.db.Annotations[api.AnnotationClients], w.called = "watch,shop/cart", &Called{Refuses: "many"}
	for i := range 200 {
		w.called.NotListed = append(w.called.NotListed, fmt.Sprintf("tenant/%s.%03d", strings.Repeat("a", 200), i))
	}
	s = w.plan().Services[0]
	steps := annotates(s)
	require.Len(t, steps, 1)
	_, list, _ := strings.Cut(steps[0].Command, api.AnnotationClients+"=")
	list, _, _ = strings.Cut(list, "'")
	require.NoError(t, invalid(strings.Split(list, ", ")))
	assert.Contains(t, list, "watch")
	assert.Contains(t, list, "tenant/")
	assert.Contains(t, fmt.Sprint(s.Steps), "its list has no room for them, or they are no entries: tenant/")
	assert.Regexp(t, `and \d+ more`, fmt.Sprint(s.Steps))
}

// What a step does, its back takes back; and the manifest has the list.
func TestGuardSteps(t *testing.T) {
	last := func(s Service) Step {
		for _, step := range s.Steps {
			if strings.HasPrefix(step.Command, "kubectl annotate") {
				return step
			}
		}
		require.Fail(t, "no step", s.Steps)
		return Step{}
	}
	w := newGuardWorld()
	w.more = []Workload{client("cart", "cart", "db:5432")}
	s := w.plan().Services[0]
	assert.Equal(t, Step{
		What:    "list its clients: watch admits all others too",
		Command: "kubectl annotate service db -n shop 'servingcert.dev/clients=watch, shop/cart'",
		Back:    "kubectl annotate service db -n shop servingcert.dev/clients-",
	}, last(s))
	assert.Equal(t, "watch, shop/cart", texts(at(s.CompleteGuard(), "metadata"), "annotations")[api.AnnotationClients])
	assert.Nil(t, s.Complete(), "nothing else is added")
	assert.True(t, s.Guard.Unchanged(w.db))

	w.db.Annotations[api.AnnotationClients] = "shop/cart , watch"
	assert.False(t, s.Guard.Unchanged(w.db))
	w.called = &Called{}
	s = w.plan().Services[0]
	assert.Equal(t, Step{
		What:    "take watch out of the list of its clients: it refuses all others from then on",
		Command: "kubectl annotate service db -n shop servingcert.dev/clients=shop/cart --overwrite",
		Back:    "kubectl annotate service db -n shop 'servingcert.dev/clients=shop/cart, watch' --overwrite",
	}, last(s))
	assert.Empty(t, s.Guard.Called)
	w.called = &Called{Refuses: "shop/old, and more", NotListed: []string{"batch/report", "shop/old"}}
	found := w.plan().Services[0]
	assert.Empty(t, found.Guard.Clients, "who only called is not added")
	assert.Equal(t, []string{"batch/report", "shop/old"}, found.Guard.Called)
	assert.Equal(t, Step{
		What:    "add those to its list that called, or refer to it, and may do so; this adds all of them",
		Command: "kubectl annotate service db -n shop 'servingcert.dev/clients=shop/cart, watch, batch/report, shop/old' --overwrite",
		Back:    "kubectl annotate service db -n shop 'servingcert.dev/clients=shop/cart, watch' --overwrite",
	}, last(found))
	w.called.NotListed = []string{"*/*", "shop/-", "shop/$(id)"} // a pod may answer anything
	found = w.plan().Services[0]
	for _, step := range found.Steps {
		assert.NotContains(t, step.Command, "annotate")
	}
	assert.Equal(t, "these called, or refer to it, and its list has no room for them, or they are no entries: */*, shop/$(id), shop/-", found.Steps[len(found.Steps)-1].What)
	assert.JSONEq(t, `{"metadata":{"uid":"u","resourceVersion":"7","annotations":{"servingcert.dev/clients":"shop/cart"}}}`, string(s.Guard.Merge(&corev1.Service{ObjectMeta: metav1.ObjectMeta{UID: "u", ResourceVersion: "7"}})))
}
