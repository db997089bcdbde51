package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// installations is an API server with a Service shop/web, and signers in the given namespaces. Without mayRead, the user
// may list the Leases of no namespace; with mayReadAll, of all.
type installations struct {
	signers             map[string]bool // by namespace: whether a replica holds the Lease
	mayRead, mayReadAll bool
	mayListServices     bool        // of all namespaces
	renewed             atomic.Bool // a renewal was requested
}

func (i *installations) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	const leases = "/apis/coordination.k8s.io/v1"
	namespace, ofNamespace := strings.CutPrefix(strings.TrimSuffix(r.URL.Path, "/leases"), leases+"/namespaces/")
	switch {
	case r.URL.Path == leases+"/leases" && i.mayReadAll:
		i.list(w, "")
	case ofNamespace && i.mayRead:
		i.list(w, namespace)
	case r.URL.Path == "/api/v1/services" && i.mayListServices, r.URL.Path == "/api/v1/namespaces/shop/services":
		_, _ = fmt.Fprintf(w, `{"kind":"ServiceList","apiVersion":"v1","items":[%s]}`, i.service())
	case r.URL.Path == "/api/v1/namespaces/shop/services/web":
		if r.Method == http.MethodPatch {
			i.renewed.Store(true)
		}
		_, _ = fmt.Fprint(w, i.service())
	case r.URL.Path == "/api/v1/namespaces/shop":
		_, _ = fmt.Fprint(w, `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"shop"}}`)
	case strings.HasPrefix(r.URL.Path, "/api/v1/namespaces/servingcert-system/configmaps/"):
		w.WriteHeader(http.StatusNotFound)
		_, _ = fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"message":"not found"}`)
	default:
		w.WriteHeader(http.StatusForbidden)
		_, _ = fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"not allowed"}`)
	}
}

func (i *installations) list(w http.ResponseWriter, only string) {
	list := coordinationv1.LeaseList{TypeMeta: metav1.TypeMeta{Kind: "LeaseList", APIVersion: "coordination.k8s.io/v1"}}
	for namespace, held := range i.signers {
		if only != "" && namespace != only {
			continue
		}
		holder, now := "a-replica", metav1.NewMicroTime(time.Now())
		if !held {
			holder = ""
		}
		list.Items = append(list.Items, coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "servingcert-signer"},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &now},
		})
	}
	_ = json.NewEncoder(w).Encode(list)
}

// service is shop/web, with another certificate after a renewal was requested.
func (i *installations) service() string {
	leaf := strings.Repeat("0", 64)
	if i.renewed.Load() {
		leaf = strings.Repeat("1", 64)
	}
	return `{"kind":"Service","apiVersion":"v1","metadata":{"name":"web","namespace":"shop","annotations":{"servingcert.dev/secret-name":"web-tls"}},"status":{"conditions":[` +
		`{"type":"servingcert.dev/Ready","status":"True","reason":"Issued","message":"issued"},` +
		`{"type":"servingcert.dev/ReadyState","status":"True","reason":"State","message":"{\"v\":1,\"state\":{\"secret\":\"web-tls\",\"leaf\":\"` + leaf + `\"}}"}]}}`
}

// A command does not wait for a signer that is not seen to run, wherever servingcert may be installed.
func TestWhereSignersAreLookedFor(t *testing.T) {
	t.Setenv("KUBECONFIG", t.TempDir()+"/none")
	const absent = "no signer runs, so no certificate is issued or renewed: Lease servingcert-system/servingcert-signer: it does not exist: no signer has run yet, or it may not create it"
	const unchanged = ". Nothing was changed; to request it anyway, use --wait=false\n"
	renew := []string{"renew", "-n", "shop", "web"}
	rotate := []string{"rotate-ca", "--reason", "drill"}
	const notInstalled = `namespace "servingcert-system" has no ConfigMap servingcert-ca-status: servingcert is not installed there, or its signer has not started yet`
	for name, tt := range map[string]struct {
		in   *installations
		args []string
		code int
		err  string
	}{
		"nowhere": {
			&installations{mayRead: true, mayReadAll: true}, renew, exitError, absent + "; no other namespace has such a Lease either" + unchanged,
		},
		"nowhere, and nothing is waited for": {
			&installations{mayRead: true, mayReadAll: true}, append(renew[:4:4], "--wait=false"), exitOK, "",
		},
		"not there, and no right to look elsewhere": {
			&installations{mayRead: true}, renew, exitError, absent + "; if servingcert is installed in another namespace, name it with --system-namespace" + unchanged,
		},
		"no right to look": {
			&installations{}, renew, exitOK, "cannot check whether process signer is running: this user may not list Leases in servingcert-system\n",
		},
		"in another namespace": {
			&installations{signers: map[string]bool{"certs": true, "old": false}, mayRead: true, mayReadAll: true}, renew, exitOK, "",
		},
		"in two others": {
			&installations{signers: map[string]bool{"certs": true, "new": true}, mayRead: true, mayReadAll: true}, renew, exitOK, "",
		},
		"not where it was looked for": {
			&installations{signers: map[string]bool{"certs": true}, mayRead: true, mayReadAll: true}, append(renew[:4:4], "--system-namespace", "sys"), exitError,
			strings.Replace(absent, "servingcert-system", "sys", 1) + "; one runs in namespace certs: name it with --system-namespace" + unchanged,
		},
		"in another namespace, where it ended": {
			&installations{signers: map[string]bool{"certs": false}, mayRead: true, mayReadAll: true}, renew, exitError,
			absent + "; nor does one run in namespace certs, which has such a Lease" + unchanged,
		},
		"it ended": {
			&installations{signers: map[string]bool{"servingcert-system": false, "certs": true}, mayRead: true, mayReadAll: true}, renew, exitError,
			"no signer runs, so no certificate is issued or renewed: Lease servingcert-system/servingcert-signer: no replica holds it" + unchanged,
		},
		"a rotation where nothing is installed": {
			&installations{mayRead: true, mayReadAll: true}, rotate, exitError, notInstalled + "; no other namespace has such a Lease either\n",
		},
		"a CA that is said to be lost where nothing is installed": {
			&installations{mayRead: true, mayReadAll: true, mayListServices: true}, append(rotate[:3:3], "--replace-lost"), exitError, notInstalled + "; no other namespace has such a Lease either\n",
		},
		"a rotation, with the signer elsewhere": {
			&installations{signers: map[string]bool{"certs": true}, mayRead: true, mayReadAll: true}, rotate, exitError, notInstalled + "; one runs in namespace certs: name it with -n\n",
		},
		"a rotation, and no right to look elsewhere": {
			&installations{mayRead: true}, rotate, exitError, notInstalled + "; if servingcert is installed in another namespace, name it with -n\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(tt.in)
			t.Cleanup(server.Close)
			var out, errs bytes.Buffer
			code := run(t.Context(), append(tt.args, "--server", server.URL), streams{in: strings.NewReader(""), out: &out, err: &errs}, DefaultTiming())
			assert.Equal(t, tt.code, code)
			assert.Equal(t, tt.err, strings.TrimPrefix(errs.String(), "kubectl servingcert: "))
			assert.Equal(t, tt.code == exitOK, tt.in.renewed.Load(), "a renewal is requested only where one is possible")
		})
	}
}
