package app

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/facts"
	"github.com/servingcert/servingcert/test/bounded"
)

// TestManagedSecretsAreReadInSmallPages: anyone who may write Secrets may label a hundred of a megabyte each.
func TestManagedSecretsAreReadInSmallPages(t *testing.T) {
	const many, size = 60, 1 << 20
	junk := make([]byte, size)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, api.LabelManagedBy+"="+api.DefaultInstance, r.URL.Query().Get("labelSelector"))
		from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
		limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
		page := corev1.SecretList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "SecretList"}}
		to := min(many, from+limit)
		for i := from; i < to; i++ {
			page.Items = append(page.Items, corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i)}, Data: map[string][]byte{"junk": junk}})
		}
		if to < many {
			page.Continue = strconv.Itoa(to)
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(page) // the client may not read all of it
	}))
	t.Cleanup(server.Close)
	cfg := &rest.Config{Host: server.URL, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeJSON}}
	wrap, largest := bounded.LargestResponse()
	cfg.Wrap(wrap)
	cfg.Wrap(facts.BoundPages)
	scheme, mapper := runtime.NewScheme(), meta.NewDefaultRESTMapper(nil)
	require.NoError(t, corev1.AddToScheme(scheme))
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Secret"), meta.RESTScopeNamespace)
	c, err := client.New(cfg, client.Options{Scheme: scheme, Mapper: mapper})
	require.NoError(t, err)
	found, err := managedExist(t.Context(), c, api.DefaultInstance)
	require.NoError(t, err)
	assert.False(t, found)
	assert.Less(t, largest(), 8<<20)
}
