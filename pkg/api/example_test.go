package api_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// The request in a Service's annotations, and what is wrong with them.
func ExampleParse() {
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "web",
		Annotations: map[string]string{api.AnnotationSecretName: "web-tls"},
	}}
	request, err := api.Parse(svc, api.DefaultLimits())
	fmt.Println(request.SecretName, request.DNSNames, err)

	svc.Annotations[api.AnnotationKeyAlgorithm] = "RSA1024"
	_, err = api.Parse(svc, api.DefaultLimits())
	fmt.Println(err)
	// Output:
	// web-tls [web.shop.svc web.shop.svc.cluster.local] <nil>
	// servingcert.dev/key-algorithm: "RSA1024": unknown key algorithm "RSA1024": must be one of ECDSAP256, ECDSAP384, ECDSAP521, ED25519, RSA2048, RSA3072, RSA4096, MLDSA44, MLDSA65
}
