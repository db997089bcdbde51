package deploy

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
)

// The words of the policy.
const (
	onlyTheirs = "only servingcert's own processes may write conditions servingcert.dev/ of a Service"
	notRemoved = "may not be removed in a namespace without label servingcert.dev/inject=enabled"
)

// A Service with condition Ready, in a namespace with and without the label, and who writes it in
// which way. An administrator is nobody special here.
func TestWhoMayWriteConditionsOfServices(t *testing.T) {
	probe := newService(t, newNamespace(t, false))
	admin := adminClient(t)
	denied(t, func() error {
		return patchStatus(t.Context(), admin, probe, forged(api.ConditionReady), client.DryRunAll)
	})
	strategic := func(patch string) func(context.Context, client.Client, *corev1.Service) error {
		return func(ctx context.Context, c client.Client, svc *corev1.Service) error {
			return patchStatus(ctx, c, svc, patch)
		}
	}
	raw := func(kind types.PatchType, patch string) func(context.Context, client.Client, *corev1.Service) error {
		return func(ctx context.Context, c client.Client, svc *corev1.Service) error {
			return c.Status().Patch(ctx, svc, client.RawPatch(kind, []byte(patch)))
		}
	}
	put := func(change func(*corev1.ServiceStatus)) func(context.Context, client.Client, *corev1.Service) error {
		return func(ctx context.Context, c client.Client, svc *corev1.Service) error {
			change(&svc.Status)
			return c.Status().Update(ctx, svc)
		}
	}
	apply := func(conditionType string) func(context.Context, client.Client, *corev1.Service) error {
		return func(ctx context.Context, c client.Client, svc *corev1.Service) error {
			doc := fmt.Sprintf(`{"apiVersion":"v1","kind":"Service","metadata":{"name":"web"},%s`, forged(conditionType)[1:])
			return c.Status().Patch(ctx, svc, client.RawPatch(types.ApplyPatchType, []byte(doc)), client.FieldOwner("mine"), client.ForceOwnership)
		}
	}
	ready := func(s *corev1.ServiceStatus) *metav1.Condition {
		return api.Condition(&corev1.Service{Status: *s}, api.ConditionReady)
	}
	const away = `{"status":{"conditions":[{"type":"servingcert.dev/Ready","$patch":"delete"}]}}`
	for _, test := range []struct {
		name            string
		who             string
		write           func(context.Context, client.Client, *corev1.Service) error
		without, within string // how it is refused, without the label and with it; "" if it is allowed
	}{
		{"forge by a patch", "", strategic(forged(api.ConditionReady)), onlyTheirs, onlyTheirs},
		{"forge another's", "", strategic(forged(api.ConditionServing)), onlyTheirs, onlyTheirs},
		{"forge another's other", "", strategic(forged(api.ConditionPodsHealthy)), onlyTheirs, onlyTheirs},
		{"one that nobody writes", "", strategic(forged("servingcert.dev/Mine")), onlyTheirs, onlyTheirs},
		{"forge by an apply", "", apply(api.ConditionReady), onlyTheirs, onlyTheirs},
		{"forge by a merge patch", "", raw(types.MergePatchType, forged(api.ConditionReady)), onlyTheirs, onlyTheirs},
		{"forge by a JSON patch", "", raw(types.JSONPatchType, `[{"op":"add","path":"/status/conditions/0/type","value":"servingcert.dev/Serving"}]`), onlyTheirs, onlyTheirs},
		{"forge by an update", "", put(func(s *corev1.ServiceStatus) { ready(s).Message = "x" }), onlyTheirs, onlyTheirs},
		{"its time alone", "", put(func(s *corev1.ServiceStatus) { ready(s).LastTransitionTime = metav1.Unix(1, 0) }), onlyTheirs, onlyTheirs},
		{"the rotator forges", "servingcert-rotator", strategic(forged(api.ConditionReady)), onlyServing, onlyServing},
		{"the signer forges another's", "servingcert-signer", strategic(forged(api.ConditionServing)), "condition servingcert.dev/Ready only", "condition servingcert.dev/Ready only"},
		{"the signer", "servingcert-signer", strategic(forged(api.ConditionReady)), "", ""},
		{"the signer takes it away", "servingcert-signer", strategic(away), "", ""},
		{"the rotator", "servingcert-rotator", strategic(forged(api.ConditionServing)), "", ""},
		{"the rotator, of guarded ports", "servingcert-rotator", strategic(forged(api.ConditionGuarded)), "", ""},
		{"forge that", "", strategic(forged(api.ConditionGuarded)), onlyTheirs, onlyTheirs},
		{"take it away", "", strategic(away), notRemoved, ""},
		{"take all away", "", put(func(s *corev1.ServiceStatus) { s.Conditions = nil }), notRemoved, ""},
		{"take it away and another's in", "", put(func(s *corev1.ServiceStatus) {
			s.Conditions = []metav1.Condition{*ready(s)}
			s.Conditions[0].Type = api.ConditionServing
		}), onlyTheirs, onlyTheirs},
		// What controllers do, such as those of load balancers.
		{"its own beside", "", strategic(forged("example.com/Programmed")), "", ""},
		{"its own beside, by an apply", "", apply("example.com/Programmed"), "", ""},
		{"the load balancer", "", strategic(loadBalancer), "", ""},
		{"a whole status with what was there", "", put(func(s *corev1.ServiceStatus) {
			s.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}
			there := api.Condition(&corev1.Service{Status: *s}, "example.com/There") // merging put it last
			there.Status, there.LastTransitionTime = metav1.ConditionFalse, metav1.NewTime(time.Now().Add(time.Hour))
			slices.Reverse(s.Conditions)
		}), "", ""},
	} {
		for optedIn, refusal := range map[bool]string{false: test.without, true: test.within} {
			t.Run(fmt.Sprintf("%s, opted in %t", test.name, optedIn), func(t *testing.T) {
				svc := newService(t, newNamespace(t, optedIn))
				refusedWith(t, test.write(t.Context(), as(t, test.who), svc), refusal)
			})
		}
	}
}

// Other writes to a Service do not reach its status.
func TestAServiceIsNotCreatedWithAStatus(t *testing.T) {
	admin, namespace := adminClient(t), newNamespace(t, false)
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "mine"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 443}}},
	}
	require.NoError(t, json.Unmarshal([]byte(forged(api.ConditionReady)), svc))
	require.NoError(t, admin.Create(t.Context(), svc))
	assert.Empty(t, svc.Status.Conditions)
	for name, write := range map[string]func(*corev1.Service) error{
		"update": func(svc *corev1.Service) error {
			if err := json.Unmarshal([]byte(forged(api.ConditionReady)), svc); err != nil {
				return err
			}
			return admin.Update(t.Context(), svc)
		},
		"patch": func(svc *corev1.Service) error {
			return admin.Patch(t.Context(), svc, client.RawPatch(types.StrategicMergePatchType, []byte(forged(api.ConditionReady))))
		},
		"apply": func(svc *corev1.Service) error {
			doc := `{"apiVersion":"v1","kind":"Service","metadata":{"name":"mine"},` + forged(api.ConditionReady)[1:]
			return admin.Patch(t.Context(), svc, client.RawPatch(types.ApplyPatchType, []byte(doc)), client.FieldOwner("mine"), client.ForceOwnership)
		},
	} {
		require.NoError(t, admin.Get(t.Context(), client.ObjectKeyFromObject(svc), svc))
		require.NoError(t, write(svc), name)
		require.NoError(t, admin.Get(t.Context(), client.ObjectKeyFromObject(svc), svc))
		assert.Empty(t, svc.Status.Conditions, name)
	}
}

// forged is a condition as its process writes it.
func forged(conditionType string) string {
	return fmt.Sprintf(`{"status":{"conditions":[{"type":%q,"status":"True","reason":"Issued","message":"Secret \"mine\": x","lastTransitionTime":"2026-01-02T03:04:05Z"}]}}`, conditionType)
}
