package app

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/judge"
	"github.com/servingcert/servingcert/pkg/api"
)

// Of one Service it is said where the proxy serves TLS, and not the program.
func TestStatusSaysWhatTheProxyServes(t *testing.T) {
	r := &report{detailed: true, Services: []judge.Service{{Name: "web", Message: "names", Proxy: []string{"sc-tls-8080"}}}}
	assert.Equal(t, []string{"names", "TLS is asked of the proxy in its pods, at targetPort sc-tls-8080"}, r.remarks())
	r.Services[0].Proxy = nil
	assert.Equal(t, []string{"names"}, r.remarks())
}

func TestStatusNamesKubelets(t *testing.T) {
	var lines []string
	row := func(name, format string, args ...any) { lines = append(lines, name+": "+fmt.Sprintf(format, args...)) }
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	s := api.KubeletStatus{Nodes: 30, Count: 20, Reported: noon}
	for i := range 10 {
		s.Kubelets = append(s.Kubelets, api.KubeletState{Node: fmt.Sprintf("n%d", i), Message: "it is late", Since: time.Unix(0, 0)})
	}
	writeKubelets(s, row, noon.Add(3*time.Hour))
	assert.Len(t, lines, 10)
	assert.Equal(t, "Kubelets: 10 of 30 serve the certificates that they were issued", lines[0])
	assert.Contains(t, lines[1], "Node n0: it is late, since ")
	assert.Equal(t, ": and 12 more: ConfigMap servingcert-kubelet-status", lines[9])

	lines = nil
	writeKubelets(s, row, noon.Add(3*time.Hour+time.Second))
	assert.Equal(t, []string{"Kubelets: not known: the last report is of 2026-03-01T12:00:00Z. A rotator with --verify-kubelets writes one every hour"}, lines)
	lines = nil
	writeKubelets(api.KubeletStatus{}, row, noon)
	assert.Equal(t, []string{"Kubelets: not known: the last report is of an older version. A rotator with --verify-kubelets writes one every hour"}, lines)
}
