package ca

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
)

// found is what one reconcile works with.
type found struct {
	Observed
	secret *corev1.Secret    // nil if absent
	status *corev1.ConfigMap // nil if absent
}

// gather reads the objects live: they are small and few, and a cache that is
// behind could make a loss look like a first start, or a bundle look trusted.
func (c *Controller) gather(ctx context.Context) (found, error) {
	f := found{Observed: Observed{
		Wanted: c.cfg.Constraints, Domain: c.cfg.Domain,
		MaxDuration: c.cfg.MaxDuration, CADuration: c.cfg.CADuration, Soak: c.cfg.Soak, Reissue: c.cfg.Reissue,
		Now: c.cfg.Clock(),
	}}
	var err error
	if f.status, err = c.configMap(ctx, api.CAStatusName); err != nil {
		return f, err
	}
	if f.status != nil {
		f.seen(f.status)
	}
	trust, err := c.configMap(ctx, api.TrustStatusName)
	if err != nil {
		return f, err
	}
	if trust != nil {
		f.Trust = parseTrust(trust.Data)
	}
	if err := c.gatherElsewhere(ctx, &f); err != nil {
		return f, err
	}
	if f.secret, err = c.secretOf(ctx, api.CASecretName); err != nil {
		return f, err
	}
	if err := c.gatherEvidence(ctx, &f); err != nil {
		return f, err
	}
	f.ClockErr = c.cfg.CheckClock() // it is compared with the API server's at each answer
	return f, nil
}

// seen takes what the status ConfigMap says.
func (o *Observed) seen(status *corev1.ConfigMap) {
	o.StatusExists, o.Request, o.StatusAnswered = true, ParseRequest(status.Annotations), status.Data[api.CARotation]
	o.StatusSigns = generationNumber(status.Data[api.CAGeneration])
	o.StatusGeneration = max(o.StatusSigns, generationNumber(status.Data[api.CANewest]))
}

// generationNumber reads a number that a person may have changed: the next one
// follows it, and must be one.
func generationNumber(text string) int {
	const most = 1_000_000 // one a minute for two years
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		return 0
	}
	return n
}

// gatherEvidence tells a CA that is missing from one that never was.
func (c *Controller) gatherEvidence(ctx context.Context, f *found) error {
	if f.secret != nil {
		f.Secret = f.secret.Data
	}
	if len(f.Secret) > 0 {
		return nil
	}
	var err error
	if f.ManagedExist, err = c.cfg.ManagedExist(ctx); err != nil {
		return fmt.Errorf("look for managed Secrets: %w", err)
	}
	if !f.ManagedExist {
		return nil
	}
	// Another signer may have made the CA, and issued, between the two reads.
	// Every Secret is issued after its CA was written: if this read does not
	// find the CA either, it is lost.
	if f.secret, err = c.secretOf(ctx, api.CASecretName); err != nil || f.secret == nil {
		return err
	}
	f.Secret = f.secret.Data
	return nil
}

// gatherElsewhere reads a CA that was not made here: the one that a person
// brings, and the one that another process keeps.
func (c *Controller) gatherElsewhere(ctx context.Context, f *found) error {
	if c.cfg.Remote != nil {
		f.HasRemote = true
		if remote, err := c.remote(ctx, f.Now); err != nil {
			f.RemoteErr = err
		} else {
			f.Remote = &remote
		}
		return nil
	}
	secret, err := c.secretOf(ctx, api.CAImportName)
	if err != nil || secret == nil {
		return err
	}
	if brought, err := ParseImport(secret.Data); err != nil {
		f.ImportErr = err
	} else {
		f.Import = &brought
	}
	return nil
}

// parseTrust reads the trust status. One that is damaged counts as a target that
// does not hold the bundle.
func parseTrust(data map[string]string) Trust {
	s, err := api.ParseTrustStatus(data)
	t := Trust{
		BundleHash: s.BundleHash, Targets: s.Targets, Holding: s.Holding, Pending: s.Pending, Refusing: s.Refusing,
		NotHolding: strings.Join(s.NotHoldingLines(), "\n"),
	}
	if err != nil {
		t.Pending++
	}
	return t
}

func (c *Controller) configMap(ctx context.Context, name string) (*corev1.ConfigMap, error) {
	var cm corev1.ConfigMap
	found, err := c.read(ctx, "ConfigMap", name, &cm)
	if !found {
		return nil, err
	}
	return &cm, nil
}

func (c *Controller) secretOf(ctx context.Context, name string) (*corev1.Secret, error) {
	var secret corev1.Secret
	found, err := c.read(ctx, "Secret", name, &secret)
	if !found {
		return nil, err
	}
	return &secret, nil
}

// read reads one object live and reports whether it is there.
func (c *Controller) read(ctx context.Context, kind, name string, into client.Object) (bool, error) {
	switch err := c.reader.Get(ctx, c.key(name), into); {
	case err == nil:
		return true, nil
	case apierrors.IsNotFound(err):
		return false, nil
	default:
		return false, fmt.Errorf("read %s %s: %w", kind, name, err)
	}
}
