package chart

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/servingcert/servingcert/deploy"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/doctor"
)

// What the values of the chart turn off or rename is not missing, as doctor sees it; the right to more
// than the release has is told.
func TestDoctorKnowsTheValues(t *testing.T) {
	const names = "signer.serviceAccount.name=a,trust.serviceAccount.name=b,rotator.serviceAccount.name=c,webhook.serviceAccount.name=d"
	for set, finds := range map[string]string{
		"":                         "",
		"certificates.csr=false":   "",
		"consumers.verify=false":   "",
		"consumers.wake=false":     "",
		"consumers.maxRestarts=0":  "",
		"consumers.maxRestarts=50": "",
		"consumers.verify=false,consumers.wake=false,consumers.correctFlags=false,certificates.csr=false": "",
		"consumers.correctFlags=false":                                           "",
		"trust.targets={NamespaceConfigMap,MutatingWebhookConfiguration}":        "",
		"trust.targets={ConfigMap}":                                              "",
		"trust.targets={NamespaceConfigMap,APIService,CustomResourceDefinition}": "",
		"trust.targets={NamespaceConfigMap,ConfigMap,ClusterTrustBundle}":        "",
		"trust.targets={ValidatingWebhookConfiguration}":                         "",
		names:                             "",
		names + ",certificates.csr=false": "",
		"webhook.port=10250,webhook.metricsPort=8444,webhook.healthPort=8082": "",
		"webhook.hostNetwork=true":                                           "",
		"remoteCA.urls={https://ca.example.com}":                             "",
		"signer.instance=blue,clusterId=eu-1,clusterDomain=example.internal": "",
		"openshiftCompat=true":                                               "",
		"trust.webhooks=all":                                                 "warning ClusterRole servingcert-trust: it grants more than the release: patch mutatingwebhookconfigurations.admissionregistration.k8s.io, patch validatingwebhookconfigurations.admissionregistration.k8s.io",
		"trust.mutatingWebhookConfigurations={mine}":                         "warning ClusterRole servingcert-trust: it grants more than the release: patch mutatingwebhookconfigurations.admissionregistration.k8s.io mine",
		"policies.annotations.action=Warn":                                   "warning ValidatingAdmissionPolicyBinding servingcert-annotations: spec.validationActions[0] is \"Warn\", and that of the release is \"Deny\"\nwarning ValidatingAdmissionPolicyBinding servingcert-target-annotations: spec.validationActions[0] is \"Warn\", and that of the release is \"Deny\"",
	} {
		t.Run(set, func(t *testing.T) {
			installed := rendered(t, set)
			assert.Equal(t, finds, strings.Join(rights(t, installed, installed), "\n"))
		})
	}
}

// A right is missed where the flags need it, whatever others turn off.
func TestDoctorMissesWhatTheFlagsNeed(t *testing.T) {
	for set, c := range map[string]struct{ lacks, finds string }{
		"certificates.csr=false": {"", "error ClusterRole servingcert-signer: it does not grant "},
	} {
		t.Run(set, func(t *testing.T) {
			found := rights(t, rendered(t, c.lacks), rendered(t, set))
			require.Len(t, found, 1)
			assert.Contains(t, found[0], c.finds)
		})
	}
}

// rendered returns the objects that helm would install.
func rendered(t *testing.T, set string) []*unstructured.Unstructured {
	t.Helper()
	args := []string{"template", "servingcert", filepath.Join(root, "deploy/chart")}
	if set != "" {
		args = append(args, "--set", set)
	}
	out, err := helmIn(t, api.DefaultNamespace, args...)
	require.NoError(t, err)
	objects, err := deploy.Decode([]byte(out))
	require.NoError(t, err)
	return objects
}

// rights returns what doctor finds of rights in objects, with the Deployments of others.
func rights(t *testing.T, processes, objects []*unstructured.Unstructured) (found []string) {
	t.Helper()
	deployments := map[string]*appsv1.Deployment{}
	for _, obj := range processes {
		if obj.GetKind() == "Deployment" {
			d := &appsv1.Deployment{}
			require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, d))
			deployments[d.Name] = d
		}
	}
	release, err := deploy.Objects()
	require.NoError(t, err)
	expected, err := doctor.Expected(release, api.DefaultNamespace, deployments)
	require.NoError(t, err)
	i := &doctor.Installation{Namespace: api.DefaultNamespace}
	for _, want := range expected {
		if slices.Contains([]string{"Deployment", "Lease"}, want.GetKind()) { // which the plugin looks at otherwise
			continue
		}
		same := func(o *unstructured.Unstructured) bool {
			return o.GetKind() == want.GetKind() && o.GetName() == want.GetName() && o.GetNamespace() == want.GetNamespace()
		}
		pair := doctor.Pair{Release: want}
		if at := slices.IndexFunc(objects, same); at >= 0 {
			pair.Live = objects[at]
		}
		i.Objects = append(i.Objects, pair)
	}
	for _, f := range (doctor.Facts{Installation: i}).Examine(time.Now()).AtLeast(doctor.Warning) {
		if slices.Contains([]doctor.ID{doctor.Rights, doctor.WebhookConfig, doctor.Policies, doctor.OtherObjects}, f.ID) {
			found = append(found, string(f.Level)+" "+f.Object+": "+f.Message)
		}
	}
	return found
}
