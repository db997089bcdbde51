package app

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/status"
)

// The status of one Service lists the ports at which the proxy serves TLS.
func TestStatusListsPortsOfProxy(t *testing.T) {
	r := &report{detailed: true, Services: []status.Service{{Name: "web", Message: "names", Proxy: []string{"sc-tls-8080"}}}}
	assert.Equal(t, []string{"names", "TLS is requested from the proxy in its pods, at targetPort sc-tls-8080"}, r.remarks())
	r.Services[0].Proxy = nil
	assert.Equal(t, []string{"names"}, r.remarks())
}

// The status reports that the clients of an older bundle are unknown.
func TestStatusReportsClientsNotSeen(t *testing.T) {
	var out bytes.Buffer
	f := &statusFlags{plugin: &plugin{}}
	f.output, f.out, f.screen = "text", &out, screen{to: &out}
	r := &report{ClientsNotSeen: "clients that may hold an older CA bundle: this user may not list pods in namespace shop"}
	require.NoError(t, f.write(r, &table{}, time.Now()))
	assert.Regexp(t, `(?m)^Not seen +`+r.ClientsNotSeen+`$`, out.String())
}
