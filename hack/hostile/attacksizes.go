package main

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
)

// keptSizes is how many Services of each kind there are at most: together they have more than
// what a process may use.
const keptSizes = 60

// serviceSelectors: as many labels as fit into a request, each another.
func serviceSelectors(a *attacker) func(int) client.Object {
	return a.sized(func(svc *corev1.Service) {
		svc.Spec.Selector = map[string]string{}
		for i := range 10_000 {
			svc.Spec.Selector[fmt.Sprintf("%s-%05d", strings.Repeat("k", 50), i)] = strings.Repeat("v", 63)
		}
	})
}

// servicePorts: the API server bounds how large an object is, and not how many ports it has.
func servicePorts(a *attacker) func(int) client.Object {
	return a.sized(func(svc *corev1.Service) {
		svc.Spec.Ports = nil
		protocol := "example.com/" + strings.Repeat("p", 60)
		for i := range int32(5000) {
			svc.Spec.Ports = append(svc.Spec.Ports, corev1.ServicePort{
				Name: fmt.Sprintf("%s-%05d", strings.Repeat("p", 50), i), Port: 1 + i, TargetPort: intstr.FromInt32(1 + i), Protocol: corev1.ProtocolTCP, AppProtocol: &protocol,
			})
		}
	})
}

// serviceTexts: labels as many as fit, the longest names that are allowed, and annotations with
// servingcert's prefix that mean nothing.
func serviceTexts(a *attacker) func(int) client.Object {
	return a.sized(func(svc *corev1.Service) {
		svc.Labels = map[string]string{}
		for i := range 5000 {
			svc.Labels[fmt.Sprintf("%s-%05d", strings.Repeat("k", 50), i)] = strings.Repeat("v", 63)
		}
		var names []string
		for i := range 90 { // with those of the Service, as many as are allowed
			names = append(names, fmt.Sprintf("%sn%d.%s.%s.svc", strings.Repeat(strings.Repeat("n", 60)+".", 2), i, svc.Name, a.namespace))
		}
		svc.Annotations[api.AnnotationExtraDNSNames] = strings.Join(names, ",")
		for i := range 200 {
			svc.Annotations[fmt.Sprintf("%s/x-%d", api.Domain, i)] = strings.Repeat("x", 1<<10)
		}
	})
}

// sized returns so many Services, each made by change, one after the other.
func (a *attacker) sized(change func(*corev1.Service)) func(int) client.Object {
	return func(i int) client.Object {
		svc := serviceOf(a.nth(i, keptSizes), evilPort)
		change(svc)
		return svc
	}
}
