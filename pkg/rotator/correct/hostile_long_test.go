//go:build long

package correct

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/bounded"
)

// TestHostilePodsOfANamespaceTakeTimeByTheirNumber: each pod is compared with what is known of
// the others, not with each of them.
func TestHostilePodsOfANamespaceTakeTimeByTheirNumber(t *testing.T) {
	situation := func(n int) Situation {
		s := Situation{Now: noon, Enabled: true}
		for i := range n {
			s.Services = append(s.Services, service(fmt.Sprint("s", i)))
			s.Pods = append(s.Pods, pod(fmt.Sprint("web-", i), "web", crashes(usageText), status(false, func(st *api.InjectionStatus) {
				for c := range 15 {
					st.Attempts[fmt.Sprint("c", c)] = api.AttemptOf("c", fmt.Sprint(i, c), nil, nil)
				}
			})))
		}
		return s
	}
	small, large := situation(25), situation(200)
	assert.Less(t, bounded.Growth(func() { Decide(small) }, func() { Decide(large) }), 24.0, "8 times the pods and Services")
}
