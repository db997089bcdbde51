package app

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/status"
)

// The status of one Service lists the ports at which the proxy serves TLS.
func TestStatusListsPortsOfProxy(t *testing.T) {
	r := &report{detailed: true, Services: []status.Service{{Name: "web", Message: "names", Proxy: []string{"sc-tls-8080"}}}}
	assert.Equal(t, []string{"names", "TLS is requested from the proxy in its pods, at targetPort sc-tls-8080"}, r.remarks())
	r.Services[0].Proxy = nil
	assert.Equal(t, []string{"names"}, r.remarks())
}
