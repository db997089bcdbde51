package mutate_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate"
	"github.com/servingcert/servingcert/pkg/mutate/choose"
)

// What a pod gets, given the Services of its namespace.
func ExampleMutate() {
	labels := map[string]string{"app": "web"}
	known := choose.Known{Services: []*corev1.Service{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Annotations: map[string]string{api.AnnotationSecretName: "web-tls"}},
		Spec:       corev1.ServiceSpec{Selector: labels, Ports: []corev1.ServicePort{{Port: 443}}},
	}}}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Labels: labels},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}},
	}
	patch, report, err := mutate.Mutate(pod, known)
	if err != nil {
		panic(err)
	}
	fmt.Println(report.Reason, report.Secret)
	for _, operation := range patch {
		fmt.Println(operation.Op, operation.Path)
	}
	// Output:
	// Injected web-tls
	// add /spec/volumes
	// add /spec/containers/0/volumeMounts
	// add /spec/containers/0/env
	// add /metadata/labels/servingcert.dev~1injected
	// add /metadata/annotations
}
