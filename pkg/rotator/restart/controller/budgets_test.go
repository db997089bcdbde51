package controller

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/facts"
	"github.com/servingcert/servingcert/pkg/rotator/restart"
	"github.com/servingcert/servingcert/test/bounded"
)

// apiServer responds with budgets, in pages if it is asked for them.
type apiServer struct {
	many, size int // size is that of an annotation
	selector   *metav1.LabelSelector
	requests   int
	largest    func() int // response
}

// ServeHTTP implements http.Handler.
func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.requests++
	from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	to := s.many
	if limit > 0 {
		to = min(to, from+limit)
	}
	page := policyv1.PodDisruptionBudgetList{TypeMeta: metav1.TypeMeta{APIVersion: "policy/v1", Kind: "PodDisruptionBudgetList"}}
	for i := from; i < to; i++ {
		b := policyv1.PodDisruptionBudget{Spec: policyv1.PodDisruptionBudgetSpec{Selector: s.selector}}
		b.Name, b.Annotations = fmt.Sprint(i), map[string]string{"x": strings.Repeat("x", s.size)}
		page.Items = append(page.Items, b)
	}
	if to < s.many {
		page.Continue = strconv.Itoa(to)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(page) // the client may not read all of it
}

// client returns one like that of the rotator.
func (s *apiServer) client(t *testing.T) client.Client {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	cfg := &rest.Config{Host: server.URL, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeJSON}}
	wrap, largest := bounded.LargestResponse()
	s.largest = largest
	cfg.Wrap(wrap)
	cfg.Wrap(facts.BoundPages)
	scheme, mapper := runtime.NewScheme(), meta.NewDefaultRESTMapper(nil)
	require.NoError(t, policyv1.AddToScheme(scheme))
	mapper.Add(policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"), meta.RESTScopeNamespace)
	c, err := client.New(cfg, client.Options{Scheme: scheme, Mapper: mapper})
	require.NoError(t, err)
	return c
}

// Whatever budgets there are in a namespace, they are read in small pages, and no more of them than matter.
func TestBudgetsAreReadInPages(t *testing.T) {
	for name, tt := range map[string]struct {
		server         apiServer
		kept, requests int
	}{
		"none":            {apiServer{}, 0, 1},
		"ordinary ones":   {apiServer{many: 40, size: 1 << 10}, 40, 1},
		"too many":        {apiServer{many: 5000, size: 10}, restart.MaxBudgets + 1, 3},
		"large ones":      {apiServer{many: 60, size: 300 << 10}, 60, 40},
		"large selectors": {apiServer{many: 60, selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": strings.Repeat("x", 300<<10)}}}, 1, 4},
	} {
		t.Run(name, func(t *testing.T) {
			r := &reconciler{live: tt.server.client(t)}
			var s restart.Situation
			require.NoError(t, r.read(t.Context(), "shop", &s, restart.Need{Budgets: true}))
			assert.NotNil(t, s.Budgets)
			assert.Len(t, s.Budgets, tt.kept)
			assert.LessOrEqual(t, tt.server.requests, tt.requests)
			assert.Less(t, tt.server.largest(), 8<<20)
		})
	}
}
