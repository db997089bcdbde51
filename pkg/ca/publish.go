package ca

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/servingcert/servingcert/pkg/api"
)

// publish brings the status ConfigMap to what it is to be. Where there is no CA
// it makes none: a status is what shows that there was one.
func (c *Controller) publish(ctx context.Context, f found, d Decision) error {
	if f.status == nil {
		if d.State == nil {
			return nil
		}
		return c.createStatus(ctx, f, c.statusData(f, d, nil))
	}
	last := c.last
	if last == nil {
		last = f.status.Data
	}
	data := c.statusData(f, d, last)
	if sameStatus(f.status, data) {
		c.last = data
		return nil
	}
	if err := c.writer.Update(ctx, withStatus(f.status, data)); err != nil {
		return fmt.Errorf("write ConfigMap %s: %w", api.CAStatusName, err)
	}
	c.last = data
	if f.status.Data[api.BundleKey] != last[api.BundleKey] {
		c.saySomeone(ctx, f, "changed the bundle in")
	}
	return nil
}

func (c *Controller) statusData(f found, d Decision, last map[string]string) map[string]string {
	var leaves map[string]int
	if d.State != nil && len(d.State.Generations) > 1 {
		leaves = c.leaves(f.Now)
	}
	return statusData(f.Observed, d, leaves, last)
}

func (c *Controller) createStatus(ctx context.Context, f found, data map[string]string) error {
	cm := withStatus(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: c.cfg.Namespace, Name: api.CAStatusName}}, data)
	if err := c.writer.Create(ctx, cm); err != nil {
		return fmt.Errorf("write ConfigMap %s: %w", api.CAStatusName, err)
	}
	if c.last != nil {
		c.saySomeone(ctx, f, "deleted")
	}
	c.last = data
	return nil
}

func (c *Controller) saySomeone(ctx context.Context, f found, did string) {
	note := fmt.Sprintf("someone %s ConfigMap %s; it was restored", did, api.CAStatusName)
	ctrl.LoggerFrom(ctx).Info(note)
	c.event(uidOf(f.secret), corev1.EventTypeNormal, EventRestored, note)
}
