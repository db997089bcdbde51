//go:build long

package requests

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// A Service that a request names and that changes all the time has it looked at a few times.
func TestAServiceThatFlipsIsNoReasonToLookAllTheTime(t *testing.T) {
	startSigner(t)
	const n, changes = 10, 20
	ns := manyWaiting(t, n)
	pod := tokenOf(t, ns, newPod(t, ns, "pod-1", "elsewhere"))
	newService(t, ns, "web-0")
	_, pods := calls(t, ns)
	start := time.Now()
	for i := range changes {
		selects(t, ns, "web-0", fmt.Sprint(i))
		answered(t, pod, ns, fmt.Sprint("next-", i))
	}
	_, again := calls(t, ns)
	t.Logf("%d requests wait, %d changes of what they wait for: %d reads of pods", n, changes, again-pods)
	assert.Greater(t, again-pods, n, "they are looked at")
	often := 1 + 5 + int(time.Since(start)/(10*time.Second)) // pace.Looks
	assert.LessOrEqual(t, again-pods, n*often+changes)       // an answer takes one
}
