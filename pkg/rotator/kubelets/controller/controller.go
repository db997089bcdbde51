// Package controller dials the kubelets, counts them by what they serve, and keeps ConfigMap
// servingcert-kubelet-status, which names those that need attention. What a kubelet's certificate means is
// decided in package kubelets.
package controller

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"time"

	"k8s.io/apimachinery/pkg/types"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/facts"
	"github.com/servingcert/servingcert/pkg/rotator/cluster"
	"github.com/servingcert/servingcert/pkg/rotator/kubelets"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
	"github.com/servingcert/servingcert/pkg/rotator/probe/dial"
	"github.com/servingcert/servingcert/pkg/starttls"
)

// prober dials one kubelet after the other.
type prober struct {
	cluster   *cluster.Cluster
	dialling  Dialling
	permitted probe.Addresses
	nodes     *facts.Informer[*kubelets.Node]
	ledger    *ledger
	changed   *cluster.Trigger
}

// Reconcile looks what the kubelet of a node serves.
func (p *prober) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	node := p.nodes.Get(types.NamespacedName{Name: request.Name})
	if node == nil {
		if p.ledger.forget(request.Name) {
			p.changed.EnqueueNamespace("")
		}
		return reconcile.Result{}, nil
	}
	s := p.gather(ctx, node)
	state, message := kubelets.Judge(s)
	if p.ledger.record(api.KubeletState{Node: node.Name, State: string(state), Message: message, Since: s.Now.UTC().Truncate(time.Second)}) {
		p.changed.EnqueueNamespace("")
	}
	jitter := time.Duration((rand.Float64() - 0.5) * 0.2 * float64(p.dialling.Interval)) //nolint:gosec // no secret
	return reconcile.Result{RequeueAfter: p.dialling.Interval + jitter}, nil
}

func (p *prober) gather(ctx context.Context, node *kubelets.Node) kubelets.Situation {
	s := kubelets.Situation{Now: p.cluster.Now(), Node: node.Name, Given: p.ledger.givenTo(node.Name)}
	s.Address, s.Refused = node.Address(p.permitted)
	if s.Refused == "" {
		s.Outcome = dial.Dial(ctx, netip.AddrPortFrom(s.Address, kubelets.Port).String(), s.Address.String(), starttls.TLS, p.dialling.Timeout)
	}
	return s
}

// reporter keeps the ConfigMap. There is only one.
type reporter struct {
	cluster *cluster.Cluster
	nodes   *facts.Informer[*kubelets.Node]
	ledger  *ledger
	writer  client.Writer
	written map[string]string
}

// settle is how long changes are gathered before they are written.
const settle = 2 * time.Second

// Reconcile brings the report up to date. What this process has not judged yet, another may have: it writes
// nothing before it has dialled all.
func (r *reporter) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	states := r.ledger.all()
	if r.written == nil && len(states) < len(r.nodes.List()) {
		return reconcile.Result{RequeueAfter: settle}, nil
	}
	again := reconcile.Result{RequeueAfter: api.KubeletReportEvery}
	data, err := api.NewKubeletStatus(states, r.cluster.Now()).Data()
	if err != nil || maps.Equal(data, r.written) {
		return again, err
	}
	doc := applycorev1.ConfigMap(api.KubeletStatusName, r.cluster.Namespace).WithData(data)
	if err := r.writer.Apply(ctx, doc, client.FieldOwner(cluster.Name), client.ForceOwnership); err != nil {
		return reconcile.Result{}, fmt.Errorf("write ConfigMap %s: %w", api.KubeletStatusName, err)
	}
	r.written = data
	return again, nil
}
