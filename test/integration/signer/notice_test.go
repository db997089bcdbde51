package signer

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// The commonest mistake is a namespace without the label. An event on the Service says so, once for
// what it asks for, and a signer that starts does not repeat what the one before it said.
func TestAForgottenLabelIsAnEvent(t *testing.T) {
	const says = "Warning NamespaceNotOptedIn: namespace "
	d := newDeployment(t)
	r := startHere(t, d, options{})
	ns, late, opted := newName(t), newName(t), newNamespace(t)
	makeNamespace(t, ns, nil)
	makeNamespace(t, late, nil)
	makeService(t, opted, "web")
	r.waitGood(t, opted, "web", "web-tls")

	makeService(t, ns, "web")
	makeService(t, late, "web")
	_, err := admin.CoreV1().Namespaces().Patch(t.Context(), late, types.MergePatchType, metadataPatch(t, "labels", map[string]any{api.LabelInject: api.InjectEnabled}), metav1.PatchOptions{})
	require.NoError(t, err)
	assert.Contains(t, waitEvent(t, ns, "web", says), `"`+ns+`" does not have label servingcert.dev/inject=enabled: the Service gets no certificate; to opt in: kubectl label namespace `+ns+` servingcert.dev/inject=enabled`)

	require.NoError(t, r.stop())

	// What is enqueued later is said later.
	again := func() {
		r = startHere(t, d, options{notices: true})
		harness.Eventually(t, func() error {
			if !strings.Contains(r.log.String(), `msg="Starting workers" controller=notices`) {
				return errors.New("it has not begun to look")
			}
			return nil
		})
	}
	again()
	annotate(t, ns, "web", map[string]any{api.AnnotationDuration: "48h"})
	makeService(t, ns, "second")
	waitEvent(t, ns, "second", says)
	require.NoError(t, r.stop())

	again()
	makeService(t, ns, "third")
	waitEvent(t, ns, "third", says)
	for service, want := range map[string]int{"web": 1, "second": 1, "third": 1} {
		assert.Len(t, eventsOn(t, ns, service), want, service)
	}
	assert.Empty(t, eventsOn(t, late, "web"), "it was labelled at once")
	assert.Empty(t, eventsOn(t, opted, "web"))
}

func eventsOn(t *testing.T, namespace, service string) []string {
	t.Helper()
	events, err := eventsOf(context.Background(), namespace, service)
	require.NoError(t, err)
	return events
}
