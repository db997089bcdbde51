package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/hack/installed"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/pki"
)

// renew asks for a new certificate, waits for it and projects the volume anew, as
// a kubelet does within a minute and a half.
func (d *demo) renew(ctx context.Context) error {
	// Certificates count in whole seconds: what is to be renewed must be older.
	at := time.Now().UTC().Truncate(time.Second)
	if issued := pki.IssuedAt(d.first.leaf); !at.After(issued) {
		at = issued.Add(time.Second)
	}
	d.out.printf("kubectl -n shop annotate service web %s=%s\n", api.AnnotationRenewAfter, at.Format(time.RFC3339))
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, api.AnnotationRenewAfter, at.Format(time.RFC3339))
	start := time.Now()
	if err := d.Admin.Patch(ctx, d.service.DeepCopy(), client.RawPatch(types.MergePatchType, patch)); err != nil {
		return err
	}
	old := pki.Fingerprint(d.first.leaf)
	if _, err := installed.Await(ctx, "a condition with another leaf", measuring, func(ctx context.Context) error {
		if err := d.isReady(ctx); err != nil {
			return err
		}
		if fingerprint, _ := state.LeafOf(d.service); fingerprint == old {
			return errors.New("it still names leaf " + old)
		}
		return nil
	}); err != nil {
		return err
	}
	if at.After(start) {
		start = at // it was asked for ahead of its time
	}
	took := time.Since(start)
	d.measure("from the request for a renewal to the new certificate", took)
	d.out.printf("a new certificate is in the Secret, and its hash in the condition, after %s\n", short(took))

	link := filepath.Join(d.podVolume.Dir, "..data")
	before, err := os.Readlink(link)
	if err != nil {
		return err
	}
	changed, err := d.podVolume.Project(ctx, d.Admin)
	if err != nil {
		return err
	}
	if !changed {
		return errors.New("the Secret's files did not change")
	}
	after, err := os.Readlink(link)
	if err != nil {
		return err
	}
	d.out.printf("play kubelet again: ..data -> %s (was %s)\n", after, before)
	return nil
}
