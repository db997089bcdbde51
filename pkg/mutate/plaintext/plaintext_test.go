package plaintext

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/bounded"
)

func probed(name string, command ...string) api.ContainerRef {
	probe := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: command}}}
	return api.ContainerRef{Container: &corev1.Container{Name: name, LivenessProbe: probe}}
}

// TestCalls: in the order in which they are found, those of a container to one port once.
func TestCalls(t *testing.T) {
	web := probed("web", "curl", "localhost:8080/live", "127.0.0.1:8080")
	web.Args = []string{"--listen=http://0.0.0.0:8080", "--peer=http://[::1]:9090", "https://localhost:1"}
	other := api.ContainerRef{Container: &corev1.Container{Name: "other", Env: []corev1.EnvVar{
		{Name: "PORT", Value: "7070"}, {Name: "A", Value: "http://user:x@127.0.0.2:$(PORT)"}, {Name: "B", Value: "http://LocalHost:${UNKNOWN}/"}, {Name: "C", Value: "http://localhost"},
	}}}
	calls := Calls([]api.ContainerRef{web, other})
	var got []string
	for _, c := range calls {
		got = append(got, c.Container+" "+c.Address)
	}
	assert.Equal(t, []string{
		"web http://0.0.0.0:8080", "web http://[::1]:9090", "web localhost:8080",
		"other http://127.0.0.2:7070", "other http://localhost:${unknown}", "other http://localhost:80",
	}, got)

	leads := func(container string, ports ...int32) (at []int) {
		for i, c := range calls {
			if c.LeadsTo(container, ports) {
				at = append(at, i)
			}
		}
		return at
	}
	assert.Equal(t, []int{2, 4}, leads("web", 8080), "a program may listen on 0.0.0.0")
	assert.Equal(t, []int{0, 2, 4}, leads("other", 8080))
	assert.Equal(t, []int{1, 3, 4}, leads("web", 9090, 7070))
	assert.Empty(t, leads("web"))
	assert.NotNil(t, Calls(nil))
}

// TestCallsAreBounded: beyond maxCalls one call stands for all others.
func TestCallsAreBounded(t *testing.T) {
	var b strings.Builder
	for port := range 65536 {
		fmt.Fprintf(&b, "127.:%d ", port)
	}
	calls := Calls([]api.ContainerRef{probed("a", b.String()), probed("b", b.String())})
	assert.Equal(t, maxCalls+1, len(calls)) //nolint:testifylint // Len would print all of them
	assert.True(t, calls[maxCalls].LeadsTo("a", []int32{60_000}))
	assert.Equal(t, "one of more than 100 addresses", calls[maxCalls].Address)
}

// TestALongPortCostsLittle: that of an address, and that of a variable to which many addresses lead.
func TestALongPortCostsLittle(t *testing.T) {
	for _, digit := range []string{"0", "1"} {
		c := probed("a", "localhost:"+strings.Repeat(digit, 3<<20), strings.Repeat("localhost:$x ", 100))
		c.Env = []corev1.EnvVar{{Name: "x", Value: strings.Repeat(digit, 3<<20)}}
		assert.Less(t, bounded.Allocated(func() { Calls([]api.ContainerRef{c}) }), uint64(64<<10*bounded.RaceFactor))
	}
}
