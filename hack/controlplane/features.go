package controlplane

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Feature is something that an API server serves from a version of Kubernetes on, and then
// only when it is turned on.
type Feature struct {
	// Name is the one that docs/kubernetes-versions.md has.
	Name string
	// Minor is the x of the first Kubernetes 1.x that serves it as servingcert uses it.
	Minor int
	// Resource tells that it is served.
	Resource schema.GroupVersionResource

	gates []string // kube-apiserver refuses to start with one that it does not know
}

// The features that servingcert uses where they are, and that not every supported version has.
var (
	// ClusterTrustBundles hold the CA bundle for all namespaces, and pods mount it from there.
	ClusterTrustBundles = Feature{
		"ClusterTrustBundles", 33, schema.GroupVersionResource{Group: "certificates.k8s.io", Version: "v1beta1", Resource: "clustertrustbundles"},
		[]string{"ClusterTrustBundle", "ClusterTrustBundleProjection"},
	}
	// PodCertificates are requested by kubelets, for keys that pods make. Version 1.35 serves
	// them too, without the field that is signed.
	PodCertificates = Feature{
		"PodCertificateRequests", 36, schema.GroupVersionResource{Group: "certificates.k8s.io", Version: "v1beta1", Resource: "podcertificaterequests"},
		[]string{"PodCertificateRequest"},
	}
)

// Features are all of them.
func Features() []Feature { return []Feature{ClusterTrustBundles, PodCertificates} }

// FeatureArgs are the flags that turn these features on or off in the control plane's API
// server. What it is too old for is left out.
func (cp *ControlPlane) FeatureArgs(on bool, features ...Feature) []string {
	return featureArgs(cp.minor, on, features)
}

func featureArgs(minor int, on bool, features []Feature) []string {
	var gates, served []string
	for _, feature := range features {
		if feature.Minor > minor {
			continue
		}
		for _, gate := range feature.gates {
			gates = append(gates, fmt.Sprintf("%s=%t", gate, on))
		}
		gvr := feature.Resource
		served = append(served, fmt.Sprintf("%s/%s/%s=%t", gvr.Group, gvr.Version, gvr.Resource, on))
	}
	if len(gates) == 0 {
		return nil
	}
	return []string{"--feature-gates=" + strings.Join(gates, ","), "--runtime-config=" + strings.Join(served, ",")}
}
