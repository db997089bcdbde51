package api

// BundleTarget is a kind of object that holds the CA bundle if AnnotationInjectCABundle requests
// it.
type BundleTarget struct{ Kind, Group, Resource string }

// BundleTargets returns all, in the order of the documentation.
func BundleTargets() []BundleTarget {
	return []BundleTarget{
		{"ConfigMap", "", "configmaps"},
		{"MutatingWebhookConfiguration", "admissionregistration.k8s.io", "mutatingwebhookconfigurations"},
		{"ValidatingWebhookConfiguration", "admissionregistration.k8s.io", "validatingwebhookconfigurations"},
		{"APIService", "apiregistration.k8s.io", "apiservices"},
		{"CustomResourceDefinition", "apiextensions.k8s.io", "customresourcedefinitions"},
	}
}
