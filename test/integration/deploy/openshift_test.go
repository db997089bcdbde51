package deploy

import (
	"encoding/json"
	"maps"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/api"
)

// On a Service that asks in OpenShift's words the signer may write what service-ca
// would, with the status, and nothing else.
func TestWhichAnnotationsTheSignerMayWrite(t *testing.T) {
	signer, admin := as(t, "servingcert-signer"), adminClient(t)
	ours := map[string]any{
		api.OpenShiftSignedBy: "ca", api.OpenShiftSignedByAlpha: "ca", api.OpenShiftError: "no", api.OpenShiftErrorAlpha: "no",
		api.OpenShiftErrorNum: "1", api.OpenShiftErrorNumAlpha: "1",
	}
	away := map[string]any{}
	for key := range ours {
		away[key] = nil
	}
	with := func(key string, value any) map[string]any {
		out := maps.Clone(ours)
		out[key] = value
		return out
	}
	const only = "annotations only where service-ca would"
	for _, word := range []string{api.OpenShiftSecretName, api.OpenShiftSecretNameAlpha} {
		for _, test := range []struct {
			name    string
			write   map[string]any
			refusal string
		}{
			{"all of them", ours, ""},
			{"all of them away", away, ""},
			{"another of service-ca's", with(api.OpenShiftInjectCABundle, "true"), only},
			{"the word itself", with(word, "other-tls"), only},
			{"the word away", with(word, nil), only},
			{"somebody's", with("example.com/note", "changed"), only},
			{"somebody's away", with("example.com/note", nil), only},
			{"a new one", with("example.com/new", "x"), only},
			{"ours that ask", with(api.AnnotationSecretName, "x"), only},
		} {
			t.Run(word+": "+test.name, func(t *testing.T) {
				svc := newService(t, newNamespace(t, false))
				svc.Annotations = map[string]string{word: "web-tls", "example.com/note": "mine"}
				if test.name == "all of them away" {
					for key := range ours {
						svc.Annotations[key] = "x"
					}
				}
				require.NoError(t, admin.Update(t.Context(), svc))
				patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": test.write}})
				require.NoError(t, err)
				refusedWith(t, patchStatus(t.Context(), signer, svc, string(patch)), test.refusal)
			})
		}
	}
}
