package controller

import (
	"cmp"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/ca"
)

// found is the input of one reconcile: the situation, and the objects that may be
// written.
type found struct {
	ca.Situation
	secret *corev1.Secret    // nil if absent
	status *corev1.ConfigMap // nil if absent
	// interim is the Secret of the interim CA, nil if absent.
	interim *corev1.Secret
}

// uid returns the UID of the CA Secret; "" if it is absent.
func (f found) uid() types.UID {
	if f.secret == nil {
		return ""
	}
	return f.secret.UID
}

// gather reads the objects live: they are small and few, and with a stale cache a loss
// could look like a first start, or a bundle look trusted.
func (c *Controller) gather(ctx context.Context) (found, error) {
	f := found{Situation: ca.Situation{Parameters: c.cfg.Parameters, Now: c.cfg.Clock(), LastStatus: c.published}}
	if err := c.gatherStatus(ctx, &f); err != nil {
		return f, err
	}
	if err := c.gatherCandidate(ctx, &f); err != nil {
		return f, err
	}
	if err := c.gatherSecret(ctx, &f); err != nil {
		return f, err
	}
	if err := c.gatherInterim(ctx, &f); err != nil {
		return f, err
	}
	if err := c.gatherExtraRoots(ctx, &f); err != nil {
		return f, err
	}
	if c.cfg.Leaves != nil {
		f.LeavesCounted, f.Leaves = true, c.leaves.get(f.Now)
	}
	f.ClockErr = c.cfg.CheckClock() // compared with the API server's clock at each response
	return f, nil
}

// gatherStatus reads the status of the CA, the requests on it, and the trust status.
func (c *Controller) gatherStatus(ctx context.Context, f *found) (err error) {
	if f.status, err = c.configMap(ctx, c.cfg.Objects().Status); err != nil {
		return err
	}
	if f.status != nil {
		status := api.ParseCAStatus(f.status.Data)
		f.Status = &status
		f.Request, f.RequestErr = api.ParseRotateRequest(f.status.Annotations)
		f.PromoteDespite = api.PromoteDespite(f.status.Annotations)
	}
	if c.bundle != nil {
		f.Trust, err = c.bundle.trust(ctx)
		return err
	}
	trust, err := c.configMap(ctx, api.TrustStatusName)
	if trust != nil {
		f.Trust = ca.ParseTrust(trust.Data)
	}
	return err
}

// gatherCandidate reads a CA that was not made here: the remote one, or else the one
// to import.
func (c *Controller) gatherCandidate(ctx context.Context, f *found) error {
	if c.cfg.Remote != nil {
		f.HasRemote = true
		if remote, err := c.remote.get(ctx, f.Now, f.startsOver()); err != nil {
			f.RemoteErr = err
		} else {
			f.Remote = &remote
		}
		return nil
	}
	secret, err := c.secret(ctx, c.cfg.Objects().Import)
	if err != nil || secret == nil {
		return err
	}
	if imported, err := ca.ParseImport(secret.Data); err != nil {
		f.ImportErr = err
	} else {
		f.Import = &imported
	}
	return nil
}

// startsOver returns the request to start over with another CA that was not answered; zero if there
// is none.
func (f found) startsOver() api.RotateRequest {
	if f.Request.Breaks() && f.Request != f.Status.Rotation {
		return f.Request
	}
	return api.RotateRequest{}
}

// gatherSecret reads the CA, and distinguishes a missing CA from one that never existed.
func (c *Controller) gatherSecret(ctx context.Context, f *found) (err error) {
	if f.secret, err = c.secret(ctx, c.cfg.Objects().Secret); err != nil {
		return err
	}
	if f.secret != nil {
		f.Secret = f.secret.Data
	}
	if len(f.Secret) > 0 {
		return nil
	}
	if f.ManagedExist, err = c.cfg.ManagedExist(ctx); err != nil {
		return fmt.Errorf("look for what the CA has issued: %w", err)
	}
	if !f.ManagedExist {
		return nil
	}
	// Another signer may have created the CA and issued between the two reads. Every
	// Secret is issued after its CA was written: if this read does not find the CA
	// either, it is lost.
	if f.secret, err = c.secret(ctx, c.cfg.Objects().Secret); err != nil || f.secret == nil {
		return err
	}
	f.Secret = f.secret.Data
	return nil
}

// gatherInterim reads the interim CA.
func (c *Controller) gatherInterim(ctx context.Context, f *found) (err error) {
	if f.interim, err = c.secret(ctx, c.cfg.Objects().Interim); err == nil && f.interim != nil {
		f.Interim = f.interim.Data
	}
	return err
}

// gatherExtraRoots reads the additional roots that clients must trust. Those that are not valid any
// more stay as they were published, by this process or the leader before it.
func (c *Controller) gatherExtraRoots(ctx context.Context, f *found) error {
	cm, err := c.configMap(ctx, c.cfg.Objects().ExtraRoots)
	if err != nil || cm == nil {
		return err
	}
	f.ExtraRoots, f.ExtraErr = ca.ReadExtraRoots(cm.Data, cmp.Or(f.LastStatus, f.Status))
	return nil
}

func (c *Controller) configMap(ctx context.Context, name string) (*corev1.ConfigMap, error) {
	var cm corev1.ConfigMap
	found, err := c.read(ctx, "ConfigMap", name, &cm)
	if !found {
		return nil, err
	}
	return &cm, nil
}

func (c *Controller) secret(ctx context.Context, name string) (*corev1.Secret, error) {
	var secret corev1.Secret
	found, err := c.read(ctx, "Secret", name, &secret)
	if !found {
		return nil, err
	}
	return &secret, nil
}

// read reads one object live and reports whether it exists. A CA without such an object has an empty name
// for it.
func (c *Controller) read(ctx context.Context, kind, name string, into client.Object) (bool, error) {
	if name == "" {
		return false, nil
	}
	switch err := c.reader.Get(ctx, c.key(name), into); {
	case err == nil:
		return true, nil
	case apierrors.IsNotFound(err):
		return false, nil
	default:
		return false, fmt.Errorf("read %s %s: %w", kind, name, err)
	}
}
