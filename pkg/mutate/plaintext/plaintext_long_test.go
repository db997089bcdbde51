//go:build long

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

// A pod is of as many as 3 MiB. To look for calls in it takes time by its size, whatever it says and however many
// containers it has.
func TestHostileAddressesCostLittle(t *testing.T) {
	for _, each := range []string{"127.", "localhost", "http://localhost@", "http://localhost:$x", "http://localhost:$(x)", "http://localhost:${x ", "http://a:b@", "://", "0.0.0.0:", "[::1]:8", "LOCALHOST:"} {
		call := func(size int) func() {
			c := corev1.Container{Name: "web", Args: []string{"http://" + strings.Repeat(each, size/len(each))}}
			for i := range size / 50 {
				c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprint("x", i), Value: "1"})
			}
			c.Env = append(c.Env, corev1.EnvVar{Name: "x", Value: "1"})
			containers := []api.ContainerRef{{Container: &c}}
			for i := range size / (4 << 10) {
				containers = append(containers, api.ContainerRef{Container: &corev1.Container{Name: fmt.Sprint("other", i), Args: []string{each}}})
			}
			return func() { Calls(containers) }
		}
		assert.Less(t, bounded.Growth(call(32<<10), call(256<<10)), 24.0, "%s: 8 times the size", each)
	}
}
