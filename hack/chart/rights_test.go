package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// rights returns a line for each verb, resource and name of a ClusterRole, sorted.
func rights(t *testing.T, set, role string) []string {
	t.Helper()
	return rightsOf(t, set, "ClusterRole "+role)
}

// rightsOf is rights of a ClusterRole or Role.
func rightsOf(t *testing.T, set, role string) []string {
	t.Helper()
	o := named(objects(t, defaultNamespace, values(t, set)), role)
	require.NotNil(t, o)
	var typed rbacv1.ClusterRole
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &typed))
	var lines []string
	for _, rule := range typed.Rules {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s %s %s", verb, resource, strings.Join(rule.ResourceNames, ","))))
			}
		}
	}
	slices.Sort(lines)
	return lines
}

// A disabled feature removes exactly these permissions.
func TestRightsOfDisabledFeatures(t *testing.T) {
	for _, test := range []struct{ set, role, lost, gained string }{
		{"consumers.wake=false", "servingcert-rotator", "list configmaps servingcert-ca.crt|patch pods|watch configmaps servingcert-ca.crt", ""},
		{"consumers.maxRestarts=0", "servingcert-rotator", withoutRestarts, ""},
		{"consumers.verify=false", "servingcert-rotator", withoutRestarts, ""},
		{
			"certificates.csr=false", "servingcert-signer",
			"approve signers servingcert.dev/serving|create subjectaccessreviews|get certificatesigningrequests|list certificatesigningrequests|" +
				"patch certificatesigningrequests/status|update certificatesigningrequests/approval|watch certificatesigningrequests", "",
		},
		{
			"trust.targets={NamespaceConfigMap,MutatingWebhookConfiguration}", "servingcert-trust",
			"attest signers servingcert.dev/serving|create clustertrustbundles servingcert.dev:serving:ca|get apiservices|get configmaps|get customresourcedefinitions|" +
				"get validatingwebhookconfigurations|list apiservices|list clustertrustbundles servingcert.dev:serving:ca|list configmaps|list customresourcedefinitions|" +
				"list validatingwebhookconfigurations|patch apiservices|patch clustertrustbundles servingcert.dev:serving:ca|patch configmaps|patch customresourcedefinitions|" +
				"watch apiservices|watch clustertrustbundles servingcert.dev:serving:ca|watch configmaps|watch customresourcedefinitions|watch validatingwebhookconfigurations",
			"get configmaps servingcert-ca.crt|list configmaps servingcert-ca.crt|patch configmaps servingcert-ca.crt|watch configmaps servingcert-ca.crt",
		},
		{"trust.targets={NamespaceConfigMap,ConfigMap,MutatingWebhookConfiguration}", "servingcert-trust", notConfigMaps, ""},
		{"trust.webhooks=all", "servingcert-trust", "patch mutatingwebhookconfigurations servingcert", "patch mutatingwebhookconfigurations|patch validatingwebhookconfigurations"},
	} {
		t.Run(test.set, func(t *testing.T) {
			before, after := rights(t, "", test.role), rights(t, test.set, test.role)
			assert.Equal(t, test.lost, strings.Join(without(before, after), "|"), "lost")
			assert.Equal(t, test.gained, strings.Join(without(after, before), "|"), "gained")
		})
	}
}

const (
	withoutRestarts = "get services|list poddisruptionbudgets|patch daemonsets|patch deployments|patch statefulsets"
	notConfigMaps   = "attest signers servingcert.dev/serving|create clustertrustbundles servingcert.dev:serving:ca|get apiservices|get customresourcedefinitions|" +
		"get validatingwebhookconfigurations|list apiservices|list clustertrustbundles servingcert.dev:serving:ca|" +
		"list customresourcedefinitions|list validatingwebhookconfigurations|patch apiservices|" +
		"patch clustertrustbundles servingcert.dev:serving:ca|patch customresourcedefinitions|watch apiservices|" +
		"watch clustertrustbundles servingcert.dev:serving:ca|watch customresourcedefinitions|watch validatingwebhookconfigurations"
)

// without returns the lines of a that are not in b.
func without(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(line string) bool { return slices.Contains(b, line) })
}

// existsOnlyWith checks that a role of a process, its binding and its policy exist only with a value, and that the process's
// own role is the same with it.
func existsOnlyWith(t *testing.T, on, roleKind, role, process string) {
	t.Helper()
	for _, kind := range []string{roleKind, roleKind + "Binding", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"} {
		assert.Nil(t, named(objects(t, defaultNamespace, nil), kind+" "+role), kind)
		assert.NotNil(t, named(objects(t, defaultNamespace, values(t, on)), kind+" "+role), kind)
	}
	assert.Equal(t, rights(t, "", process), rights(t, on, process))
}

// The trust process may read Services and write BackendTLSPolicies only if this is enabled.
func TestRightsToBackendTLSPolicies(t *testing.T) {
	const role, on = "servingcert-trust-backend-tls-policies", "trust.backendTLSPolicies=true"
	existsOnlyWith(t, on, "ClusterRole", role, "servingcert-trust")
	assert.Equal(t, []string{
		"create backendtlspolicies", "delete backendtlspolicies", "get customresourcedefinitions backendtlspolicies.gateway.networking.k8s.io", "list backendtlspolicies", "list services",
		"patch backendtlspolicies", "watch backendtlspolicies", "watch services",
	}, rights(t, on, role))
}

// The permission to approve kubelets' requests exists only if it is enabled, and only for that signer.
func TestRightsToKubeletServing(t *testing.T) {
	const role, on = "servingcert-signer-kubelet-serving", "kubeletServing.approve=true\nkubeletServing.nodeCIDRs={10.0.0.0/16}"
	existsOnlyWith(t, on, "ClusterRole", role, "servingcert-signer")
	assert.Equal(t, []string{
		"approve signers kubernetes.io/kubelet-serving", "get certificatesigningrequests", "list certificatesigningrequests", "list nodes",
		"update certificatesigningrequests/approval", "watch certificatesigningrequests", "watch nodes",
	}, rights(t, on, role))
	_, err := loaded(t).render(defaultNamespace, values(t, "kubeletServing.approve=true"))
	assert.ErrorContains(t, err, "kubeletServing.approve: requires kubeletServing.nodeCIDRs, kubeletServing.nodeDNSSuffixes, or both")
}

// The permission to create CertificateRequests exists only if an issuer is set.
func TestRightsToAnIssuer(t *testing.T) {
	const role, on = "servingcert-signer-ca-issuer", "caIssuer.issuer=ClusterIssuer/vault"
	existsOnlyWith(t, on, "Role", role, "servingcert-signer")
	requests := []string{"create certificaterequests", "delete certificaterequests", "get certificaterequests", "list certificaterequests"}
	assert.Equal(t, requests, rightsOf(t, on, "Role "+role))
	assert.ElementsMatch(t, append(requests, "get configmaps roots"), rightsOf(t, on+"\ncaIssuer.roots=roots", "Role "+role))
	longest := strings.Repeat("a", 55)
	assert.Contains(t, at(t, named(objects(t, defaultNamespace, values(t, on+"\nsigner.instance="+longest)), "Deployment servingcert-signer"), args), "--instance="+longest)
	for set, says := range map[string]string{
		on + "\nremoteCA.urls={https://ca.example.com}": "caIssuer.issuer: must not be set together with remoteCA.urls",
		"caIssuer.roots=roots":                          "caIssuer.roots: requires caIssuer.issuer",
		on + "\nsigner.instance=a" + longest:            "must have at most 55 characters with caIssuer.issuer",
	} {
		_, err := loaded(t).render(defaultNamespace, values(t, set))
		assert.ErrorContains(t, err, says)
	}
}
