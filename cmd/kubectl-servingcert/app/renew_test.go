package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestRenewalsThatFail are printed with their errors, and the exit code is 1.
func TestRenewalsThatFail(t *testing.T) {
	t.Setenv("KUBECONFIG", t.TempDir()+"/none")
	requests := func(name, annotations string) string {
		return fmt.Sprintf(`{"metadata":{"name":%q,"namespace":"shop","annotations":{"servingcert.dev/secret-name":"%s-tls"%s}}%s}`, name, name, annotations,
			`,"status":{"conditions":[{"type":"servingcert.dev/Ready","status":"True","reason":"Issued","message":"leaf sha256:0123"}]}`)
	}
	listOf := func(services ...string) string {
		return `{"kind":"ServiceList","apiVersion":"v1","items":[` + strings.Join(services, ",") + `]}`
	}
	services := listOf(requests("api", ""), requests("theirs", `,"servingcert.dev/issuer":"external"`), requests("web", ""))
	const forbidden = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"not allowed"}`
	const broken = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"InternalError","code":500,"message":"out of order"}`
	const gone = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"message":"not found"}`
	for name, tt := range map[string]struct {
		list       string
		args       []string
		failed     string
		services   map[string]string // NAME STATE: the error
		notRenewed map[string]string
	}{
		"it does not exist": {
			services, []string{"web", "none"}, `no Service "none" requests a certificate`,
			map[string]string{"web notRequested": `no Service "none" requests a certificate`}, map[string]string{"none": `no Service "none" requests a certificate`},
		},
		"another issuer's": {
			services, []string{"theirs"}, "another issuer writes Secret shop/theirs-tls",
			map[string]string{}, map[string]string{"theirs": "another issuer writes Secret shop/theirs-tls"},
		},
		"no right to patch": {
			services, []string{"api", "web", "--wait=false"}, "renew shop/web: not allowed",
			map[string]string{"api requested": "", "web notRequested": "renew shop/web: not allowed"}, map[string]string{},
		},
		"one refused, one deleted meanwhile": {
			listOf(requests("aaa", ""), requests("api", ""), requests("gone", "")), []string{"--all", "--wait=false"}, "renew shop/aaa: not allowed",
			map[string]string{"aaa notRequested": "renew shop/aaa: not allowed", "api requested": "", "gone deleted": ""}, map[string]string{},
		},
		"two refused": {
			listOf(requests("aaa", ""), requests("bbb", "")), []string{"--all", "--wait=false"}, "renew shop/aaa: not allowed; and 1 more",
			map[string]string{"aaa notRequested": "renew shop/aaa", "bbb notRequested": "renew shop/bbb: not allowed"}, map[string]string{},
		},
		"one refused, and the API server fails": {
			listOf(requests("aaa", ""), requests("broken", ""), requests("web", "")), []string{"--all", "--wait=false"}, "renew shop/aaa: not allowed; renew shop/broken: out of order",
			map[string]string{"aaa notRequested": "renew shop/aaa: not allowed", "broken notRequested": "renew shop/broken: out of order", "web notRequested": "renew shop/broken: out of order"}, map[string]string{},
		},
		"not opted in": {
			listOf(`{"metadata":{"name":"web","namespace":"shop","annotations":{"servingcert.dev/secret-name":"web-tls"}}}`), []string{"web"},
			"Namespace shop is not labelled, so nothing is issued in it", map[string]string{}, map[string]string{"web": "To opt in: kubectl label namespace shop servingcert.dev/inject=enabled"},
		},
		"no right to list": {
			forbidden, []string{"web"}, "list Services: not allowed", map[string]string{}, map[string]string{"web": "list Services: not allowed"},
		},
		"of all": {
			forbidden, []string{"--all"}, "list Services: not allowed", map[string]string{}, map[string]string{},
		},
		"none of all": {
			`{"kind":"ServiceList","apiVersion":"v1","items":[]}`, []string{"--all"}, "no Service requests a certificate", map[string]string{}, map[string]string{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				answer := forbidden
				switch {
				case r.URL.Path == "/api/v1/namespaces/shop/services":
					answer = tt.list
				case r.URL.Path == "/api/v1/namespaces/shop/services/api" && r.Method == http.MethodPatch:
					answer = requests("api", "")
				case r.URL.Path == "/api/v1/namespaces/shop/services/gone":
					answer = gone
				case r.URL.Path == "/api/v1/namespaces/shop/services/broken":
					answer = broken
				case r.URL.Path == "/api/v1/namespaces/shop":
					answer = `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"shop"}}`
				}
				switch answer {
				case forbidden:
					w.WriteHeader(http.StatusForbidden)
				case gone:
					w.WriteHeader(http.StatusNotFound)
				case broken:
					w.WriteHeader(http.StatusInternalServerError)
				}
				_, _ = fmt.Fprint(w, answer)
			}))
			t.Cleanup(server.Close)
			var out, errs bytes.Buffer
			code := run(t.Context(), append([]string{"renew", "-n", "shop", "--server", server.URL, "-o", "json"}, tt.args...), streams{in: strings.NewReader(""), out: &out, err: &errs}, DefaultTiming())
			assert.Equal(t, exitError, code)
			assert.Contains(t, errs.String(), tt.failed)
			var got struct {
				Kind, Error string
				Services    []struct{ Name, State, Error string }
				NotRenewed  []struct{ Name, Why string }
			}
			require.NoError(t, json.Unmarshal(out.Bytes(), &got), "%s", out.String())
			assert.Equal(t, "Renewals", got.Kind)
			assert.Contains(t, got.Error, tt.failed)
			assert.NotNil(t, got.Services, "a list, not null")
			require.Len(t, got.Services, len(tt.services))
			for _, s := range got.Services {
				want, known := tt.services[s.Name+" "+s.State]
				assert.True(t, known, "%+v", s)
				assert.Contains(t, s.Error, want)
				assert.Equal(t, want == "", s.Error == "", "%+v", s)
			}
			require.Len(t, got.NotRenewed, len(tt.notRenewed))
			for _, s := range got.NotRenewed {
				want, known := tt.notRenewed[s.Name]
				assert.True(t, known, "%+v", s)
				assert.Contains(t, s.Why, want)
			}
		})
	}
}
