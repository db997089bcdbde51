package collect

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/doctor"
)

// gathererOf returns a gatherer of a cluster with these objects. What is forbidden is RESOURCE, or RESOURCE in a
// namespace.
func gathererOf(opts Options, forbidden string, objects ...runtime.Object) *gatherer {
	client := fake.NewClientset(objects...)
	client.PrependReactor("*", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		name := a.GetResource().Resource
		if forbidden != name && forbidden != name+" in "+a.GetNamespace() {
			return false, nil, nil
		}
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: name}, "", nil)
	})
	return &gatherer{opts: opts, client: client, ending: map[string]bool{}}
}

// A user with rights in one namespace only gets its findings.
func TestANamespaceWithoutTheReportOfTheSigner(t *testing.T) {
	g := gathererOf(Options{System: "sys", Namespace: "shop"}, "configmaps in sys",
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}},
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Annotations: map[string]string{api.AnnotationSecretName: "web-tls"}}})
	_, err := g.namespaces(t.Context())
	require.NoError(t, err)
	require.Len(t, g.facts.Namespaces, 1)
	assert.Len(t, g.facts.Namespaces[0].Services, 1)
	require.Len(t, g.facts.Failures, 1)
	assert.Equal(t, "ConfigMap sys/"+api.ConventionalStatusName, g.facts.Failures[0].What)
	assert.Equal(t, doctor.ReadForbidden, g.facts.Failures[0].Kind)
	assert.Equal(t, []doctor.ID{doctor.Missed}, g.facts.Failures[0].Checks)
}

// Without the CA for clients, it is unknown which pods have no identity, or no list of clients.
func TestTheCAForClientsCannotBeRead(t *testing.T) {
	for forbidden, want := range map[string][]doctor.ID{"": nil, "configmaps in sys": {doctor.CAProblem, doctor.CAWarning, doctor.Missed}} {
		g := gathererOf(Options{System: "sys"}, forbidden)
		g.identities(t.Context())
		var got []doctor.ID
		for _, f := range g.facts.Failures {
			assert.Equal(t, "ConfigMap sys/"+api.ClientCAStatusName, f.What)
			got = append(got, f.Checks...)
		}
		assert.Equal(t, want, got)
	}
}

// --kubelets never dials nothing without a report.
func TestKubeletsThatAreNotDialled(t *testing.T) {
	signer := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "sys", Name: "servingcert-signer"}}
	signer.Spec.Template.Spec.Containers = []corev1.Container{{Name: "signer"}}
	approving := signer.DeepCopy()
	approving.Spec.Template.Spec.Containers[0].Args = []string{"--approve-kubelet-serving"}
	for name, tt := range map[string]struct {
		asked     bool
		forbidden string
		signer    *appsv1.Deployment
		why       string
	}{
		"not requested":      {false, "", signer, ""},
		"approved":           {true, "", approving, ""},
		"not approved":       {true, "", signer, "none was dialled: the signer does not have --approve-kubelet-serving"},
		"unread Deployments": {true, "deployments", approving, "none was dialled: the Deployments could not be read, so it is unknown whether the signer has --approve-kubelet-serving"},
	} {
		g := gathererOf(Options{System: "sys", Kubelets: tt.asked}, tt.forbidden, tt.signer)
		i := &doctor.Installation{Namespace: "sys"}
		g.processes(t.Context(), i)
		g.kubelets(t.Context(), i)
		why := ""
		for _, f := range g.facts.Failures {
			if slices.Contains(f.Checks, doctor.KubeletServing) {
				why = f.Why
			}
		}
		assert.Equal(t, tt.why, why, name)
	}
}

func TestAWebhookConfigurationThatDoesNotExist(t *testing.T) {
	for forbidden, absent := range map[string]bool{"": true, "mutatingwebhookconfigurations": false} {
		g, i := gathererOf(Options{System: "sys"}, forbidden), &doctor.Installation{}
		g.caBundles(t.Context(), i)
		assert.Equal(t, absent, i.NoConfiguration)
	}
}
