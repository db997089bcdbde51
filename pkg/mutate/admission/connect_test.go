package admission

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate/choose"
)

// connectPod is a pod that a Service of the informers selects, and that connects to others.
func connectPod(value string) *corev1.Pod {
	pod := plainPod()
	pod.Annotations = map[string]string{api.AnnotationConnect: value}
	return pod
}

// secureService is a Service to which a proxy can connect.
func secureService(namespace, name string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: map[string]string{api.AnnotationSecretName: name + "-tls"}},
		Spec: corev1.ServiceSpec{
			ClusterIP: "10.0.0.1", Selector: map[string]string{"app": name},
			Ports: []corev1.ServicePort{{Name: "tls", Port: 5432, TargetPort: intstr.FromString("sc-tls-5432")}},
		},
	}
}

// others is a cluster of which the informers know only Service web of namespace shop.
type others struct {
	mu    sync.Mutex
	reads map[string]int
	known map[string]choose.Known
	errs  map[string]error
	wait  map[string]chan struct{}
}

func (o *others) handler(t *testing.T) http.Handler {
	t.Helper()
	o.reads = map[string]int{}
	bare, _ := (&world{cached: knows(webService)}).bare(t, logr.Discard())
	bare.config.ProxyImage = "registry.example/proxy"
	bare.elsewhere = func(context.Context, string, string) *corev1.Service { return nil }
	bare.live = func(_ context.Context, namespace string) (choose.Known, error) {
		o.mu.Lock()
		o.reads[namespace]++
		o.mu.Unlock()
		if c := o.wait[namespace]; c != nil {
			<-c
		}
		if namespace == "shop" {
			return knows(webService), nil
		}
		known, there := o.known[namespace]
		if err := o.errs[namespace]; err != nil || there {
			return known, err
		}
		return choose.Known{}, errNotOptedIn
	}
	return bare.serving()
}

// TestReadsOfOtherNamespacesHoldUpNobody: whoever lists Services of other namespaces waits for the API server beside
// the reviews of others, which are decoded at once.
func TestReadsOfOtherNamespacesHoldUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		read := make(chan struct{})
		o := &others{wait: map[string]chan struct{}{"a": read, "b": read, "c": read, "d": read}}
		h, started := o.handler(t), time.Now()
		slow := review(`{"metadata":{"annotations":{"servingcert.dev/connect":"x.a, x.b, x.c, x.d"}},"spec":{"containers":[` + strings.Repeat("{},", smallValues/2-50) + `{}]}}`)
		var slowOnes sync.WaitGroup
		for range 8 {
			slowOnes.Go(func() { assert.Equal(t, http.StatusOK, send(h, strings.NewReader(slow)).Code) })
		}
		synctest.Wait()
		assert.Equal(t, http.StatusOK, ordinary(t, h).Code)
		assert.Zero(t, time.Since(started), "nobody waited")
		o.mu.Lock()
		assert.Equal(t, map[string]int{"shop": 8, "a": 8, "b": 8, "c": 8, "d": 8}, o.reads, "at the same time")
		o.mu.Unlock()
		close(read)
		slowOnes.Wait()
	})
}

// TestOtherNamespacesThatCannotBeRead: a pod that is created while they cannot would send plaintext for its whole life.
func TestOtherNamespacesThatCannotBeRead(t *testing.T) {
	o := &others{
		known: map[string]choose.Known{"data": knows(secureService("data", "db")), "many": {}},
		errs:  map[string]error{"away": errors.New("the server is currently unable to handle the request")},
	}
	var entries []string
	for i := range 12 {
		name := fmt.Sprintf("s%d", i)
		entries = append(entries, name+".many")
		o.known["many"] = knows(append(o.known["many"].Services, secureService("many", name))...)
	}
	h := o.handler(t)

	status, body, _ := ask(t, h, reviewOf(t, connectPod("db.data, db.away")))
	assert.Equal(t, http.StatusInternalServerError, status)
	assert.Contains(t, body, "currently unable to handle the request")

	status, _, resp := ask(t, h, reviewOf(t, connectPod("db.data, db.closed")))
	assert.Equal(t, http.StatusOK, status, "a namespace that is not opted in")
	assert.Contains(t, string(resp.Patch), "=db.data.svc:5432")
	assert.Contains(t, strings.Join(resp.Warnings, ""), "db.closed: no Service of that name requests a certificate")

	_, _, resp = ask(t, h, reviewOf(t, connectPod(strings.Join(entries, ","))))
	for _, e := range entries {
		assert.Contains(t, string(resp.Patch), "="+e+".svc:5432", "one read for all of them")
	}

	entries = nil
	for i := range maxElsewhere + 1 {
		entries = append(entries, fmt.Sprintf("db.n%d", i))
	}
	status, body, _ = ask(t, h, reviewOf(t, connectPod(strings.Join(entries, ","))))
	assert.Equal(t, http.StatusInternalServerError, status)
	assert.Contains(t, body, "more than 16 other namespaces")
}

// TestInformersThatAreLate: they may not have seen yet that a listed Service has got its TLS port. A pod that believed
// them would send plaintext for its whole life.
func TestInformersThatAreLate(t *testing.T) {
	stale := func(namespace, name string) *corev1.Service {
		svc := secureService(namespace, name)
		svc.Spec.Ports = []corev1.ServicePort{{Name: "postgres", Port: 5432, TargetPort: intstr.FromInt32(5432)}}
		return svc
	}
	reads := map[string]int{}
	var mu sync.Mutex
	bare, _ := (&world{cached: knows(webService, stale("shop", "api"))}).bare(t, logr.Discard())
	bare.config.ProxyImage = "registry.example/proxy"
	bare.elsewhere = func(_ context.Context, namespace, name string) *corev1.Service { return stale(namespace, name) }
	bare.live = func(_ context.Context, namespace string) (choose.Known, error) {
		mu.Lock()
		defer mu.Unlock()
		reads[namespace]++
		if namespace == "shop" {
			return knows(webService, secureService("shop", "api")), nil
		}
		return knows(secureService(namespace, "db")), nil
	}
	h := bare.serving()
	_, _, resp := ask(t, h, reviewOf(t, connectPod("api, db.data")))
	assert.Contains(t, string(resp.Patch), "=api.shop.svc:5432")
	assert.Contains(t, string(resp.Patch), "=db.data.svc:5432")
	assert.Equal(t, map[string]int{"shop": 1, "data": 1}, reads)

	var entries []string
	for i := range maxElsewhere + 3 {
		entries = append(entries, fmt.Sprintf("db.n%d", i))
	}
	reads = map[string]int{}
	status, _, resp := ask(t, h, reviewOf(t, connectPod(strings.Join(entries, ","))))
	assert.Equal(t, http.StatusOK, status, "what the informers know is enough for the others")
	assert.Contains(t, string(resp.Patch), "=db.n0.svc:5432")
	assert.LessOrEqual(t, len(reads), maxElsewhere+1)
	ask(t, h, reviewOf(t, connectPod("*")))
	assert.LessOrEqual(t, reads["shop"], 1, "nobody has listed it")
}
