package succession

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// hostileMap is a ConfigMap that requests the bundle, and cannot hold it.
func hostileMap(name string) *corev1.ConfigMap {
	yes := true
	return &corev1.ConfigMap{Immutable: &yes, ObjectMeta: metav1.ObjectMeta{
		Namespace: "hostile", Name: name, Annotations: map[string]string{api.AnnotationInjectCABundle: "true"}}}
}

// A tenant has ConfigMaps that refuse the bundle: one stays, two alternate, and new
// ones come and go all the time. The CA is replaced nevertheless when the grace is
// over; the namespace is named, and nobody else fails.
func TestATenantHoldsUpNobody(test *testing.T) {
	t := fresh(test)
	start(t, "signer", "--ca-soak=2s", "--ca-reissue-window=2s", "--ca-refusal-grace=8s")
	start(t, "trust")
	makeShop(t, "shop", services, nil)
	tr := startTraffic(t, "shop", services, time.Now)
	_, err := t.admin.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "hostile"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	maps := t.admin.CoreV1().ConfigMaps("hostile")
	for i := range 3 {
		_, err := maps.Create(t.Context(), hostileMap(fmt.Sprintf("frozen-%d", i)), metav1.CreateOptions{})
		require.NoError(t, err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var acts atomic.Int64
	over := make(chan struct{})
	create := func(name string) {
		if _, err := maps.Create(ctx, hostileMap(name), metav1.CreateOptions{}); err == nil {
			acts.Add(1)
		}
	}
	remove := func(name string) {
		if maps.Delete(ctx, name, metav1.DeleteOptions{}) == nil {
			acts.Add(1)
		}
	}
	go func() {
		defer close(over)
		for n := 0; ctx.Err() == nil; n++ {
			create(fmt.Sprintf("new-%d", n))
			remove(fmt.Sprintf("new-%d", n-5))
			remove(fmt.Sprintf("frozen-%d", n%2))
			create(fmt.Sprintf("frozen-%d", (n+1)%2))
		}
	}()
	t.Cleanup(func() { stop(); <-over })
	// How often it acts while the CA is replaced is a matter of the machine.
	goesOn := func(after int64) {
		t.Helper()
		require.Eventually(t, func() bool { return acts.Load() > after }, waitFor, tick, "it stopped")
	}
	goesOn(16) // until new ones go, too

	begun := acts.Load()
	out, err := cli(t, "rotate-ca", "--reason", "audit", "--timeout=3m")
	require.NoError(t, err)
	ended := acts.Load()
	assert.Greater(t, ended, begun, "it stopped meanwhile")
	goesOn(ended)
	stop()
	<-over
	assert.Contains(t, out, ". It does not wait for targets in these namespaces after ")
	assert.Contains(t, out, ": hostile. To continue without them: kubectl servingcert rotate-ca --proceed 2")
	assert.Regexp(t, `done: (all \d+ certificates are|1 certificate is) signed by generation 2`, out)
	requireSaid(t, api.SuccessionHeldUp)
	assert.Contains(t, said(t, api.SuccessionHeldUp)[0], ": hostile. It waits for them until")
	requireSaid(t, "CAPromoted")
	assert.Contains(t, said(t, "CAPromoted")[0], "targets in these namespaces have not held its root for 8s: hostile")
	require.Eventually(t, func() bool { return len(tr.issuers()) == 1 && strings.HasPrefix(tr.issuers()[0], "servingcert CA 2 ") }, waitFor, tick)
	tr.requireNoFailure(t)
}
