package docs

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/trust"
)

// traefikTransport and traefikRoute are the parts of Traefik 3.7.13's types that the page uses
// (pkg/provider/kubernetes/crd/traefikio/v1alpha1: serverstransport.go, ingressroute.go). Its
// module is not required for two types, as it has two thousand packages.
type (
	traefikTransport struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Spec              struct {
			ServerName string `json:"serverName"`
			RootCAs    []struct {
				Secret    *string `json:"secret"`
				ConfigMap *string `json:"configMap"`
			} `json:"rootCAs"`
		} `json:"spec"`
	}
	traefikRoute struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Spec              struct {
			Routes []struct {
				Match    string `json:"match"`
				Kind     string `json:"kind"`
				Services []struct {
					Name             string `json:"name"`
					Port             int    `json:"port"`
					Scheme           string `json:"scheme"`
					ServersTransport string `json:"serversTransport"`
				} `json:"services"`
			} `json:"routes"`
		} `json:"spec"`
	}
)

// The objects of the page decode strictly, use the name in the Service's certificate, and refer to the
// rotator's CA bundle. test/promtest/operator tests the ServiceMonitor, with the operator's type.
func TestTheGatewaysPageHasObjectsThatDecode(t *testing.T) {
	const hostname = "web.shop.svc"
	seen := map[string]bool{}
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(read(t, "docs/gateways.md"), -1) {
		for _, text := range regexp.MustCompile(`(?m)^---\n`).Split(block[1], -1) {
			var is metav1.TypeMeta
			require.NoError(t, yaml.Unmarshal([]byte(text), &is))
			seen[is.Kind] = true
			switch is.Kind {
			case "BackendTLSPolicy":
				var policy unstructured.Unstructured
				require.NoError(t, yaml.UnmarshalStrict([]byte(text), &policy.Object))
				want := trust.NewPolicy(&metav1.ObjectMeta{Namespace: "shop", Name: "web"})
				want.SetOwnerReferences(nil)
				assert.Equal(t, want.Object, policy.Object, "the rotator's policy")
			case "ServersTransport":
				var transport traefikTransport
				require.NoError(t, yaml.UnmarshalStrict([]byte(text), &transport))
				assert.Equal(t, hostname, transport.Spec.ServerName)
				assert.Equal(t, api.BundleName, *transport.Spec.RootCAs[0].ConfigMap)
			case "IngressRoute":
				var route traefikRoute
				require.NoError(t, yaml.UnmarshalStrict([]byte(text), &route))
				assert.Equal(t, "https", route.Spec.Routes[0].Services[0].Scheme)
			case "Ingress":
				var ingress networkingv1.Ingress
				require.NoError(t, yaml.UnmarshalStrict([]byte(text), &ingress))
				assert.Equal(t, hostname, ingress.Annotations["nginx.ingress.kubernetes.io/proxy-ssl-name"])
				assert.Equal(t, "on", ingress.Annotations["nginx.ingress.kubernetes.io/proxy-ssl-verify"])
			}
		}
	}
	assert.Equal(t, map[string]bool{"BackendTLSPolicy": true, "ServersTransport": true, "IngressRoute": true, "Ingress": true, "ServiceMonitor": true}, seen)
}
