package doctor

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func running(account string, args ...string) *appsv1.Deployment {
	d := &appsv1.Deployment{}
	d.Spec.Template.Spec = corev1.PodSpec{ServiceAccountName: account, Containers: []corev1.Container{{Args: args}}}
	return d
}

// Flags are read as the programs read them. What the values of the chart make of all objects is in
// test/integration/chart.
func TestFlagsOfADeployment(t *testing.T) {
	f := flagsOf(running("", "--csr=false", "-wake=false", "--targets", "ConfigMap,APIService", "--max-restarts=0", "--log-level=debug", "--log-level=info", "--correct-flags", "--verify-consumers=no", "plain"))
	for _, name := range []string{"csr", "wake", "max-restarts"} {
		assert.True(t, f.off(name), name)
	}
	for _, name := range []string{"correct-flags", "verify-consumers", "absent"} {
		assert.False(t, f.off(name), name)
	}
	assert.Equal(t, "info", f["log-level"])
	assert.False(t, f.without("ConfigMap"))
	assert.True(t, f.without("ClusterTrustBundle"))
	assert.False(t, flags{}.without("ClusterTrustBundle"), "by default all")
	assert.Empty(t, flagsOf(&appsv1.Deployment{}))
}

// What was not read is expected as the release has it, and the release itself is not changed.
func TestExpected(t *testing.T) {
	release := []*unstructured.Unstructured{object(t, roleText), object(t, bindingText), object(t, webhookText), object(t, policyText), object(t, serviceText)}
	before := make([]*unstructured.Unstructured, len(release))
	for i := range release {
		before[i] = release[i].DeepCopy()
	}
	same, err := Expected(release, "servingcert-system", nil)
	require.NoError(t, err)
	assert.Equal(t, before, same)
	_, err = Expected(release, "servingcert-system", map[string]*appsv1.Deployment{
		"servingcert-signer": running("issuer", "--csr=false"), "servingcert-webhook": running("injector", "--port=10250"),
	})
	require.NoError(t, err)
	assert.Equal(t, before, release)

	release[0].Object["rules"] = "none"
	_, err = Expected(release, "servingcert-system", map[string]*appsv1.Deployment{"servingcert-signer": running("")})
	assert.ErrorContains(t, err, "ClusterRole servingcert-signer: ")
}

const policyOfSignerText = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: servingcert-signer-secrets}
spec:
  validations: [{expression: "request.userInfo.username != 'system:serviceaccount:sys:servingcert-signer'"}]
`

// Objects are expected with the accounts and ports of the Deployments.
func TestAccountsAndPortsOfDeployments(t *testing.T) {
	binding := object(t, bindingText)
	first(binding.Object["subjects"])["namespace"] = "sys"
	binding.Object["subjects"] = append(binding.Object["subjects"].([]any),
		map[string]any{"kind": "ServiceAccount", "name": "servingcert-signer", "namespace": "other"}, map[string]any{"kind": "ServiceAccount", "name": "default", "namespace": "sys"})
	account := func(name string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{}
		o.SetKind("ServiceAccount")
		o.SetName(name)
		return o
	}
	policy := object(t, `
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: servingcert-webhook, namespace: sys}
spec: {ingress: [{ports: [{port: 9443}, {port: 8443}, {port: 8081}]}]}
`)
	other := object(t, serviceText)
	other.SetName("servingcert-rotator")
	release := []*unstructured.Unstructured{binding, account("servingcert-signer"), account("servingcert-trust"), object(t, policyOfSignerText), object(t, webhookText), object(t, serviceText), policy, other}
	expected, err := Expected(release, "sys", map[string]*appsv1.Deployment{
		"servingcert-signer": running("issuer"), "servingcert-trust": running(""),
		"servingcert-webhook": running("", "--port=10250", "--metrics-addr=:10251", "--health-addr=10.0.0.1:10252"),
	})
	require.NoError(t, err)

	subjects := expected[0].Object["subjects"].([]any)
	assert.Equal(t, "issuer", subjects[0].(map[string]any)["name"])
	assert.Equal(t, "servingcert-signer", subjects[1].(map[string]any)["name"], "of another namespace")
	assert.Equal(t, "default", subjects[2].(map[string]any)["name"])
	assert.Equal(t, "issuer", expected[1].GetName())
	assert.Equal(t, "servingcert-trust", expected[2].GetName(), "a Deployment without a ServiceAccount of its own")
	validations := expected[3].Object["spec"].(map[string]any)["validations"]
	assert.Equal(t, "request.userInfo.username != 'system:serviceaccount:sys:issuer'", first(validations)["expression"])

	service := first(expected[4].Object["webhooks"])["clientConfig"].(map[string]any)["service"].(map[string]any)
	assert.EqualValues(t, 10250, service["port"])
	assert.EqualValues(t, 10250, first(expected[5].Object["spec"].(map[string]any)["ports"])["port"])
	ports := first(expected[6].Object["spec"].(map[string]any)["ingress"])["ports"].([]any)
	for i, want := range []int{10250, 10251, 10252} {
		assert.EqualValues(t, want, ports[i].(map[string]any)["port"])
	}
	assert.Equal(t, other, expected[7], "the port of another process")
}

// What a flag turns off needs no rights, and all others are needed.
func TestRightsThatFlagsTurnOff(t *testing.T) {
	rule := func(group, resource string, verbs ...any) map[string]any {
		return map[string]any{"apiGroups": []any{group}, "resources": []any{resource}, "verbs": verbs}
	}
	role := func(process string, rules ...any) *unstructured.Unstructured {
		o := object(t, roleText)
		o.SetName("servingcert-" + process)
		o.Object["rules"] = rules
		return o
	}
	release := []*unstructured.Unstructured{
		role("signer", rule("", "services", "get"), rule("certificates.k8s.io", "certificatesigningrequests", "get", "watch"), rule("certificates.k8s.io", "certificatesigningrequests/status", "patch")),
		role("rotator", rule("", "services", "get"), rule("", "pods", "get", "patch", "delete"), rule("apps", "daemonsets", "patch")),
		role("trust", rule("", "namespaces", "get"), rule("", "configmaps", "get", "create"), rule("certificates.k8s.io", "clustertrustbundles", "list"),
			rule("apiregistration.k8s.io", "apiservices", "patch")),
	}
	for name, c := range map[string]struct {
		process string
		args    []string
		want    []string
	}{
		"the signer has all":                 {"signer", nil, []string{"get services", "get certificatesigningrequests.certificates.k8s.io", "watch certificatesigningrequests.certificates.k8s.io", "patch certificatesigningrequests/status.certificates.k8s.io"}},
		"requests are turned on":             {"signer", []string{"--csr=true"}, []string{"get services", "get certificatesigningrequests.certificates.k8s.io", "watch certificatesigningrequests.certificates.k8s.io", "patch certificatesigningrequests/status.certificates.k8s.io"}},
		"requests are turned off":            {"signer", []string{"--csr=false"}, []string{"get services"}},
		"a flag of another process":          {"rotator", []string{"--csr=false"}, []string{"get services", "get pods", "patch pods", "delete pods", "patch daemonsets.apps"}},
		"nothing is woken":                   {"rotator", []string{"--wake=false"}, []string{"get services", "get pods", "delete pods", "patch daemonsets.apps"}},
		"nothing is corrected":               {"rotator", []string{"--correct-flags=false"}, []string{"get services", "get pods", "patch pods", "patch daemonsets.apps"}},
		"nothing is verified":                {"rotator", []string{"--verify-consumers=false"}, []string{"get pods", "patch pods", "delete pods"}},
		"nothing is restarted":               {"rotator", []string{"--max-restarts=0"}, []string{"get pods", "patch pods", "delete pods"}},
		"all targets":                        {"trust", nil, []string{"get namespaces", "get configmaps", "create configmaps", "list clustertrustbundles.certificates.k8s.io", "patch apiservices.apiregistration.k8s.io"}},
		"the ConfigMaps of namespaces alone": {"trust", []string{"--targets=NamespaceConfigMap"}, []string{"get namespaces", "create configmaps", "get configmaps servingcert-ca.crt", "list configmaps servingcert-ca.crt", "watch configmaps servingcert-ca.crt", "patch configmaps servingcert-ca.crt"}},
		"without those of namespaces":        {"trust", []string{"--targets=ConfigMap,APIService"}, []string{"get namespaces", "get configmaps", "patch apiservices.apiregistration.k8s.io"}},
		"none of both":                       {"trust", []string{"--targets=ClusterTrustBundle"}, []string{"get namespaces", "list clustertrustbundles.certificates.k8s.io"}},
	} {
		t.Run(name, func(t *testing.T) {
			expected, err := Expected(release, "sys", map[string]*appsv1.Deployment{"servingcert-" + c.process: running("", c.args...)})
			require.NoError(t, err)
			for _, obj := range expected {
				if obj.GetName() != "servingcert-"+c.process {
					continue
				}
				rules, err := rulesOf(obj)
				require.NoError(t, err)
				var got []string
				for _, r := range expand(rules) {
					got = append(got, r.String())
				}
				assert.ElementsMatch(t, c.want, got)
			}
		})
	}
}
