package target

// Kinds lists every kind of target, in the order of the documentation. With
// openShift, OpenShift's annotations request the bundle as ours do.
func Kinds(openShift bool) []Kind {
	return []Kind{
		namespaceConfigMap(),
		annotatedConfigMap(openShift),
		mutatingWebhookConfiguration(openShift),
		validatingWebhookConfiguration(openShift),
		apiService(openShift),
		customResourceDefinition(openShift),
		clusterTrustBundle(),
	}
}

// Names returns the names of all kinds.
func Names() []string {
	var names []string
	for _, k := range Kinds(false) {
		names = append(names, k.Name)
	}
	return names
}
