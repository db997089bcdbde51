package controlplane

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Feature is an API that kube-apiserver serves since a version of Kubernetes.
type Feature struct {
	// Name is the name in docs/kubernetes-versions.md.
	Name string
	// Minor is the x of the first Kubernetes 1.x that serves the API in the form that servingcert
	// uses, if it is enabled.
	Minor int
	// Default is the x of the first 1.x that serves it by default, in v1.
	Default int

	resource string
	gates    []string // kube-apiserver does not start if it does not know one
}

// The features that servingcert uses if they are available, and that some supported versions lack.
var (
	// ClusterTrustBundles contain the CA bundle for all namespaces; pods mount them.
	ClusterTrustBundles = Feature{"ClusterTrustBundles", 33, 37, "clustertrustbundles", []string{"ClusterTrustBundle", "ClusterTrustBundleProjection"}}
	// PodCertificates are requested by kubelets, for keys that are generated for pods. Version 1.35
	// serves them too, but without the field that is signed.
	PodCertificates = Feature{"PodCertificateRequests", 36, 37, "podcertificaterequests", []string{"PodCertificateRequest"}}
)

// Features returns all features.
func Features() []Feature { return []Feature{ClusterTrustBundles, PodCertificates} }

// Resource returns the resource that Kubernetes 1.minor serves.
func (f Feature) Resource(minor int) schema.GroupVersionResource {
	version := "v1beta1"
	if minor >= f.Default {
		version = "v1"
	}
	return schema.GroupVersionResource{Group: "certificates.k8s.io", Version: version, Resource: f.resource}
}

// FeatureArgs returns flags of kube-apiserver that enable or disable these features. It omits
// those that kube-apiserver is too old for, and does not enable those that are on by default.
func (cp *ControlPlane) FeatureArgs(on bool, features ...Feature) []string {
	return featureArgs(cp.minor, on, features)
}

func featureArgs(minor int, on bool, features []Feature) []string {
	var gates, served []string
	for _, feature := range features {
		if feature.Minor > minor || on && feature.Default <= minor {
			continue
		}
		for _, gate := range feature.gates {
			gates = append(gates, fmt.Sprintf("%s=%t", gate, on))
		}
		if feature.Default > minor {
			gvr := feature.Resource(minor)
			served = append(served, fmt.Sprintf("%s/%s/%s=%t", gvr.Group, gvr.Version, gvr.Resource, on))
		}
	}
	var args []string
	if len(gates) > 0 {
		args = append(args, "--feature-gates="+strings.Join(gates, ","))
	}
	if len(served) > 0 {
		args = append(args, "--runtime-config="+strings.Join(served, ","))
	}
	return args
}
