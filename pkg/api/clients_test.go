package api

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/servingcert/servingcert/pkg/proxy"
)

func guarded(name, clients string, targets ...string) *corev1.Service {
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Annotations: map[string]string{AnnotationSecretName: "web-tls"}}}
	if clients != "" {
		svc.Annotations[AnnotationClients] = clients
	}
	svc.Spec.Selector = map[string]string{"app": "web"}
	for i, target := range targets {
		svc.Spec.Ports = append(svc.Spec.Ports, corev1.ServicePort{Name: fmt.Sprint("p", i), Port: int32(443 + i), TargetPort: intstr.FromString(target)})
	}
	return svc
}

func TestClients(t *testing.T) {
	entries, is, err := Clients(guarded("web", " shop/cart,any , shop/cart,*/prometheus"))
	require.NoError(t, err)
	assert.True(t, is)
	assert.Equal(t, []string{"*/prometheus", "any", "shop/cart"}, entries)

	entries, is, err = Clients(guarded("web", ""))
	assert.False(t, is)
	assert.NoError(t, err)
	assert.Empty(t, entries)

	entries, is, err = Clients(guarded("web", "shop"))
	assert.True(t, is, "nobody is admitted")
	assert.ErrorContains(t, err, "NAMESPACE/NAME")
	assert.Empty(t, entries)
}

func TestMayCall(t *testing.T) {
	for list, want := range map[string]bool{
		"shop/cart": true, "shop/*": true, "*/cart": true, "any": true, "a/b, watch": true, "": true, "*/*": true,
		"shop/other": false, "other/cart": false, "nonsense": false,
	} {
		assert.Equal(t, want, MayCall(guarded("web", list), "shop", "cart"), list)
	}
}

func TestAdmits(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", Labels: map[string]string{"app": "web"}}}
	ports := []string{"sc-tls-8080", "sc-any-5432"}
	admits := func(services ...*corev1.Service) string {
		got := Admits(services, pod.Labels, ports)
		assert.Empty(t, got.Full)
		return got.Value
	}
	assert.Equal(t, "sc-any-5432=open;sc-tls-8080=open", admits(guarded("web", "", "sc-tls-8080")))
	assert.Equal(t, "sc-any-5432=open;sc-tls-8080=shop/cart", admits(guarded("web", "shop/cart", "sc-tls-8080"), guarded("db", "", "sc-any-5432")))
	assert.Equal(t, "sc-any-5432=any;sc-tls-8080=any", admits(guarded("web", "any", "sc-tls-8080", "sc-any-5432")))
	assert.Equal(t, "sc-any-5432=open;sc-tls-8080=a/b,shop/cart", admits(guarded("web", "shop/cart", "sc-tls-8080"), guarded("more", "a/b,shop/cart", "sc-tls-8080")), "the clients of both")
	assert.Equal(t, "sc-any-5432=open;sc-tls-8080=shop/cart", admits(guarded("web", "shop/cart", "sc-tls-8080"), guarded("more", "", "sc-tls-8080")), "another Service does not open it")
	assert.Equal(t, "sc-any-5432=open;sc-tls-8080=", admits(guarded("web", "nonsense", "sc-tls-8080")), "nobody")
	other := guarded("web", "any", "sc-tls-8080")
	other.Spec.Selector["app"] = "other"
	unasked := guarded("web", "any", "sc-tls-8080")
	delete(unasked.Annotations, AnnotationSecretName)
	assert.Equal(t, "sc-any-5432=open;sc-tls-8080=open", admits(other, unasked))
}

// What a port admits stays if the Service that guards it is gone, in whatever way, also if another Service that guards
// nothing leads to the port; and the other ports are followed.
func TestNoPortIsOpened(t *testing.T) {
	labels, ports := map[string]string{"app": "web"}, []string{"sc-tls-8080", "sc-tls-9187"}
	const before = "sc-tls-8080=shop/cart;sc-tls-9187=open"
	other, unasked := guarded("web", "any", "sc-tls-8080"), guarded("web", "any", "sc-tls-8080")
	other.Spec.Selector["app"] = "other"
	delete(unasked.Annotations, AnnotationSecretName)
	for name, services := range map[string][]*corev1.Service{
		"deleted": nil, "without a list": {guarded("web", "", "sc-tls-8080")}, "of other pods": {other}, "without a certificate": {unasked}, "another": {guarded("headless", "", "sc-tls-8080", "sc-tls-9187")},
	} {
		assert.Equal(t, before, AdmitsAfter(services, labels, ports, before).Value, name)
	}
	assert.Equal(t, "sc-tls-8080=shop/cart;sc-tls-9187=any", AdmitsAfter([]*corev1.Service{guarded("metrics", "any", "sc-tls-9187")}, labels, ports, before).Value)
	assert.Equal(t, "sc-tls-8080=", AdmitsAfter([]*corev1.Service{guarded("web", "", "sc-tls-9187")}, labels, ports, "sc-tls-8080=").Value, "somebody has removed the other port")
	assert.Empty(t, AdmitsAfter(nil, labels, ports, "").Value, "or the annotation")
}

// A pod's annotation is bounded, and what does not fit is closed.
func TestAdmitsIsBounded(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Labels: map[string]string{"app": "web"}}}
	var list []string
	for i := range MaxClientEntries {
		list = append(list, fmt.Sprintf("shop/%s-%d", strings.Repeat("x", 50), i))
	}
	var ports []string
	var services []*corev1.Service
	for i := range MaxProxyPorts {
		ports = append(ports, fmt.Sprint("sc-tls-", 8000+i))
		services = append(services, guarded(fmt.Sprint("web-", i), strings.Join(list, ","), ports[i]))
	}
	got := Admits(services, pod.Labels, ports)
	assert.LessOrEqual(t, len(got.Value), MaxAdmits)
	assert.NotEmpty(t, got.Full)
	for _, port := range got.Full {
		assert.Contains(t, ";"+got.Value+";", ";"+port+"=;")
	}
	assert.Equal(t, MaxProxyPorts, strings.Count(got.Value, "="))
}

// What the webhook and the rotator write is what the proxy reads: a list that it cannot read would leave the previous
// one in force.
func TestTheProxyReadsTheList(t *testing.T) {
	part := rapid.StringMatching(`[a-z0-9.*/-]{0,6}|[a-z0-9]([-a-z0-9]{0,4}[a-z0-9])?`)
	rapid.Check(t, func(t *rapid.T) {
		var list []string
		for range rapid.IntRange(0, 4).Draw(t, "entries") {
			list = append(list, rapid.SampledFrom([]string{"any", "watch", "*/*", ""}).Draw(t, "word")+part.Draw(t, "namespace")+rapid.SampledFrom([]string{"", "/"}).Draw(t, "slash")+part.Draw(t, "name"))
		}
		svc := guarded("web", strings.Join(list, ","), "sc-tls-8080")
		svc.Annotations[AnnotationClients] = strings.Join(list, ",")
		value := Admits([]*corev1.Service{svc}, map[string]string{"app": "web"}, []string{"sc-tls-8080"}).Value
		read, err := proxy.ParseAdmission(value)
		if err != nil || read.Guard("sc-tls-8080") == nil {
			t.Fatalf("%q of %q: %v", value, list, err)
		}
	})
}
