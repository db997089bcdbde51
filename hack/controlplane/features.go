package controlplane

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Feature is something that an API server serves from a version of Kubernetes on.
type Feature struct {
	// Name is the one that docs/kubernetes-versions.md has.
	Name string
	// Minor is the x of the first Kubernetes 1.x that serves it as servingcert uses it, once it is
	// turned on.
	Minor int
	// Default is the x of the first 1.x that serves it without that, in v1.
	Default int

	resource string
	gates    []string // kube-apiserver refuses to start with one that it does not know
}

// The features that servingcert uses where they are, and that not every supported version has.
var (
	// ClusterTrustBundles hold the CA bundle for all namespaces, and pods mount it from there.
	ClusterTrustBundles = Feature{"ClusterTrustBundles", 33, 37, "clustertrustbundles", []string{"ClusterTrustBundle", "ClusterTrustBundleProjection"}}
	// PodCertificates are requested by kubelets, for keys that pods make. Version 1.35 serves
	// them too, without the field that is signed.
	PodCertificates = Feature{"PodCertificateRequests", 36, 37, "podcertificaterequests", []string{"PodCertificateRequest"}}
)

// Features are all of them.
func Features() []Feature { return []Feature{ClusterTrustBundles, PodCertificates} }

// Resource returns what Kubernetes 1.minor serves.
func (f Feature) Resource(minor int) schema.GroupVersionResource {
	version := "v1beta1"
	if minor >= f.Default {
		version = "v1"
	}
	return schema.GroupVersionResource{Group: "certificates.k8s.io", Version: version, Resource: f.resource}
}

// FeatureArgs are the flags that turn these features on or off in the control plane's API
// server. What it is too old for, or serves by default, is left out.
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
