package controller

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/ca"
)

// fieldManager owns what the signer creates by server-side apply.
const fieldManager = "servingcert-signer"

// Labels of the CA Secret and the status ConfigMap. The Secret deliberately has
// no api.LabelManagedBy: that marks certificates that the signer may re-issue.
var objectLabels = map[string]string{
	"app.kubernetes.io/name":      "servingcert",
	"app.kubernetes.io/component": "ca",
}

// publish updates the status ConfigMap to the decided status, if any.
func (c *Controller) publish(ctx context.Context, f found, d ca.Decision) error {
	last := c.published
	switch {
	case d.Status == nil:
		return nil
	case f.status == nil:
		// An apply request contains the name, so that RBAC can restrict creation to it. If
		// another client has created the ConfigMap meanwhile, the apply is a conflict.
		cm := applycorev1.ConfigMap(c.cfg.Objects().Status, c.cfg.Namespace).WithLabels(objectLabels).WithData(d.Status.Data())
		if err := c.writer.Apply(ctx, cm, client.FieldOwner(fieldManager)); err != nil {
			return writeError("ConfigMap", c.cfg.Objects().Status, err)
		}
		if last != nil {
			c.reportRestored(ctx, f, "deleted")
		}
	case !sameStatus(f.status, d.Status.Data()):
		if err := c.writer.Update(ctx, withStatus(f.status, d.Status.Data())); err != nil {
			return writeError("ConfigMap", c.cfg.Objects().Status, err)
		}
		if last != nil && f.Status.Bundle != last.Bundle {
			c.reportRestored(ctx, f, "changed the bundle in")
		}
	}
	c.published = d.Status
	if c.bundle != nil {
		return c.bundle.publish(ctx, d.Status.Bundle)
	}
	return nil
}

// sameStatus reports whether the ConfigMap is up to date. Annotations and other labels
// than ours belong to its users.
func sameStatus(cm *corev1.ConfigMap, data map[string]string) bool {
	for key, value := range objectLabels {
		if cm.Labels[key] != value {
			return false
		}
	}
	return len(cm.BinaryData) == 0 && maps.Equal(cm.Data, data)
}

// withStatus returns an updated copy of the ConfigMap.
func withStatus(cm *corev1.ConfigMap, data map[string]string) *corev1.ConfigMap {
	cm = cm.DeepCopy()
	if cm.Labels == nil {
		cm.Labels = map[string]string{}
	}
	maps.Copy(cm.Labels, objectLabels)
	cm.Data, cm.BinaryData = data, nil
	return cm
}

func writeError(kind, name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("write %s %s: %w", kind, name, err)
}
