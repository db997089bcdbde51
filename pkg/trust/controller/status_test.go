package controller

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/trust"
	"github.com/servingcert/servingcert/pkg/trust/controller/target"
	"github.com/servingcert/servingcert/test/bounded"
)

// A file with a password of its own costs thousands of hashes, and every decision about the trust
// status looks at all targets: only the decision about a target makes its files.
func TestADecisionAboutTheStatusMakesNoFile(t *testing.T) {
	const (
		targets = 40       // more than the cache of files holds
		most    = 10 << 10 // bytes for one of them, an eighth of what one file takes
	)
	now := time.Now()
	kind := target.Kinds(false)[1]
	require.Equal(t, "ConfigMap", kind.Name)
	source := sourceOf(t, now)
	var sources trust.Sources
	bundle, err := sources.Read(source, false, now)
	require.NoError(t, err)
	var all []runtime.Object
	for i := range targets {
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: fmt.Sprintf("trust-%02d", i), UID: types.UID(fmt.Sprint(i)), ResourceVersion: "6",
			Annotations: map[string]string{
				api.AnnotationInjectCABundle: "true", api.AnnotationFormats: "truststore.p12", api.AnnotationKeystorePassword: fmt.Sprintf("password-%02d", i),
			},
		}}
		cm.Data, cm.BinaryData = trust.ConfigMapData(trust.RequestOf(cm, false), bundle)
		all = append(all, cm)
	}
	objects := map[string][]runtime.Object{fmt.Sprintf("%T", all[0]): all}
	r := statusOf(t, kind, source, now, objects)
	view := r.kinds.all()[0]
	own := &reconciler{kind: kind, now: r.now, targets: view.targets, source: r.source, state: r.state}
	decide := func() trust.Summary {
		s, _, err := r.gather(t.Context())
		require.NoError(t, err)
		return trust.DecideStatus(s).Summary
	}
	reconciled := func(cm runtime.Object) {
		key := types.NamespacedName{Namespace: "shop", Name: cm.(*corev1.ConfigMap).Name}
		_, err := own.Reconcile(t.Context(), reconcile.Request{NamespacedName: key})
		require.NoError(t, err)
	}

	assert.Equal(t, targets, decide().Status.Pending, "a new process has compared none")
	for _, cm := range all {
		reconciled(cm)
	}
	assert.Equal(t, targets, decide().Status.Holding)
	assert.Less(t, bounded.Allocated(func() { decide() }), uint64(targets*most*bounded.RaceFactor), "the status is decided again and again")

	damaged := all[7].DeepCopyObject().(*corev1.ConfigMap)
	damaged.BinaryData["truststore.p12"][30] ^= 1 // of its digest
	all[7] = damaged
	r.kinds.watched(kind, cacheOf(t, kind.Reads(), objects))
	changed := decide().Status
	assert.Equal(t, targets-1, changed.Holding)
	require.Len(t, changed.NotHolding, 1)
	assert.Equal(t, "trust-07", changed.NotHolding[0].Name)
}
