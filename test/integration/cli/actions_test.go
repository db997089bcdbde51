package cli

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/servingcert/servingcert/pkg/api"
)

// data reads what -o json printed.
func data(t *testing.T, r result, kind string) map[string]any {
	t.Helper()
	var object map[string]any
	require.NoError(t, json.Unmarshal([]byte(r.out), &object), r.out+r.err)
	assert.Equal(t, "cli.servingcert.dev/v1", object["apiVersion"])
	assert.Equal(t, kind, object["kind"])
	return object
}

// What renew has done, as data: also of what it has not finished.
func TestRenewalsAsData(t *testing.T) {
	s, ns := newSystem(t), newNamespace(t, "shop", nil)
	for i, name := range []string{"api", "web"} {
		makeService(t, ns, name)
		require.NoError(t, setIssued(t.Context(), ns, name, hash(i)))
	}
	c := start(t, plane.KubeconfigFile(), "renew", "--system-namespace", s.namespace, "-n", ns, "--all", "-o", "json")
	var after time.Time
	for i, name := range []string{"api", "web"} {
		after = renewAfter(t, ns, name)
		require.NoError(t, setIssued(t.Context(), ns, name, hash(i+2)))
	}
	r, err := c.wait()
	require.NoError(t, err)
	assert.Zero(t, r.code, r.err)
	assert.Contains(t, r.err, ns+"/web has a new certificate in Secret web-tls: leaf ", "what people are told is no data")
	object := data(t, r, "Renewals")
	assert.Equal(t, after.UTC().Format(time.RFC3339), object["renewAfter"])
	assert.Equal(t, []any{
		map[string]any{"namespace": ns, "name": "api", "secret": "api-tls", "state": "renewed", "leafBefore": hash(0), "leaf": hash(2)},
		map[string]any{"namespace": ns, "name": "web", "secret": "web-tls", "state": "renewed", "leafBefore": hash(1), "leaf": hash(3)},
	}, object["services"])

	r = cli(t, "renew", "-n", ns, "web", "-o", "yaml", "--wait=false")
	assert.Zero(t, r.code, r.err)
	assert.Equal(t, "renewal requested for 1 certificate\n", r.err)
	var got struct{ Services []map[string]string }
	require.NoError(t, yaml.Unmarshal([]byte(r.out), &got))
	assert.Equal(t, []map[string]string{{"namespace": ns, "name": "web", "secret": "web-tls", "state": "requested", "leafBefore": hash(3)}}, got.Services)
	r = cli(t, "renew", "-n", ns, "web", "api", "-o", "name", "--wait=false")
	assert.Equal(t, "service/web\nservice/api\n", r.out)

	before := renewAfter(t, ns, "web")
	r = cli(t, "renew", "-n", ns, "service/web", "svc/api", "--dry-run")
	assert.Zero(t, r.code, r.err)
	assert.Equal(t, "would be renewed: "+ns+"/web (Secret web-tls)\nwould be renewed: "+ns+"/api (Secret api-tls)\n", r.out)
	r = cli(t, "renew", "-n", ns, "web", "--dry-run", "-o", "jsonpath={.services[*].state}")
	assert.Equal(t, "notRequested", r.out)
	assert.Equal(t, before, renewAfter(t, ns, "web"), "nothing was written")

	require.NoError(t, setReady(t.Context(), ns, "web", metav1.ConditionFalse, "SigningFailed", "no"))
	r = cli(t, "renew", "--system-namespace", s.namespace, "-n", ns, "web", "-o", "json", "--timeout", "1s")
	assert.Equal(t, 1, r.code)
	assert.Contains(t, r.err, "not renewed after 1s: "+ns+"/web (Ready=False SigningFailed: no)")
	assert.Equal(t, []any{
		map[string]any{"namespace": ns, "name": "web", "secret": "web-tls", "state": "requested", "ready": "False", "reason": "SigningFailed", "message": "no",
			"error": "not renewed after 1s: " + ns + "/web (Ready=False SigningFailed: no)"},
	}, data(t, r, "Renewals")["services"])

	r = cli(t, "renew", "-n", ns, "web", "-o", "wide")
	assert.Equal(t, 2, r.code)
	assert.Contains(t, r.err, `-o "wide": must be text, json, yaml, name or jsonpath=TEMPLATE`)
	r = cli(t, "renew", "-n", ns, "missing", "-o", "json")
	assert.Equal(t, 1, r.code)
	object = data(t, r, "Renewals")
	assert.Empty(t, object["services"], "nothing was done")
	assert.Contains(t, object["error"], `no Service "missing" requests a certificate`)
}

// What rotate-ca has done, as data: to its end, asked again, and what it left unsaid.
func TestRotationAsData(t *testing.T) {
	s, ns := newSystem(t), newNamespace(t, "shop", nil)
	makeService(t, ns, "web")
	require.NoError(t, setIssued(t.Context(), ns, "web", hash(0)))
	setServing(t, ns, "web", metav1.ConditionTrue, api.ServingCurrent, "every pod serves it", time.Now())
	s.ca(t, stable())
	args := []string{"rotate-ca", "-n", s.namespace, "--reason", "drill", "-o", "json"}
	c := start(t, plane.KubeconfigFile(), args...)
	require.Equal(t, "overlap:drill", s.asked(t))
	s.ca(t, with(stable(), api.CARotation, "overlap:drill", api.CARotationOutcome, "generation 2 was made and signs",
		api.CAGeneration, "2", api.CAPhase, api.PhaseRetire, api.CALeaves, "1", api.CAReplaced, "1"))
	r, err := c.wait()
	require.NoError(t, err)
	assert.Zero(t, r.code, r.err)
	assert.Contains(t, r.err, "done: 1 certificate is signed by generation 2\n")
	object := data(t, r, "Rotation")
	assert.Equal(t, []any{"overlap", "drill", "written"}, []any{object["mode"], object["reason"], object["request"]})
	assert.NotContains(t, object, "breaks")
	ca, ok := object["ca"].(map[string]any)
	require.True(t, ok)
	assert.EqualValues(t, 2, ca["generation"])
	served, ok := object["served"].(map[string]any)
	require.True(t, ok)
	assert.GreaterOrEqual(t, served["serving"], 1.0)

	assert.Equal(t, "answered", data(t, cli(t, args...), "Rotation")["request"])
	assert.Equal(t, "configmap/"+api.CAStatusName+"\n", cli(t, append(args[:5:5], "-o", "name")...).out)

	waiting := with(stable(), api.CARotation, "overlap:drill", api.CARotationOutcome, "generation 2 was made and does not sign yet", api.CAPhase, api.PhaseWait, api.CANextGeneration, "2")
	s.ca(t, waiting)
	r = cli(t, append(args, "--timeout", "1s")...)
	assert.Equal(t, 1, r.code, "it takes too long")
	object = data(t, r, "Rotation")
	assert.Equal(t, "open", object["request"])
	assert.NotContains(t, object, "served")

	r = cli(t, "rotate-ca", "-n", s.namespace, "--proceed", "2", "--wait=false", "-o", "json")
	assert.Zero(t, r.code, r.err)
	object = data(t, r, "Rotation")
	assert.EqualValues(t, 2, object["generation"])
	assert.Equal(t, "written", object["request"])
	assert.NotContains(t, object, "mode")

	r = cli(t, "rotate-ca", "-n", s.namespace, "--proceed", "7", "-o", "json")
	assert.Equal(t, 1, r.code)
	assert.Empty(t, r.out, "nothing was decided")
}
