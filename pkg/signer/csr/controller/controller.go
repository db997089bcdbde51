package controller

import (
	"context"
	"encoding/json"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	certificatesclient "k8s.io/client-go/kubernetes/typed/certificates/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/servingcert/servingcert/pkg/signer"
	"github.com/servingcert/servingcert/pkg/signer/csr"
	"github.com/servingcert/servingcert/pkg/signer/issue"
	"github.com/servingcert/servingcert/pkg/signer/requests"
)

// Controller answers CertificateSigningRequests. Setup creates it.
type Controller struct {
	config   requests.Config
	requests *requests.Followed[*csr.Facts]
	answers  certificatesclient.CertificateSigningRequestInterface
	reviews  reviews
}

// Reconcile answers one request, or emits an event about what is missing. It reads the request,
// as the cache has only the Facts.
func (c *Controller) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	key := types.NamespacedName{Name: request.Name} // the namespace is the tenant
	return c.requests.Decide(key, func(f *csr.Facts) (reconcile.Result, error) { return c.decideAndAct(ctx, f) })
}

func (c *Controller) decideAndAct(ctx context.Context, f *csr.Facts) (reconcile.Result, error) {
	object, err := requests.Read(ctx, c.answers, f)
	if object == nil {
		return reconcile.Result{}, err
	}
	s, err := c.gather(ctx, csr.RequestOf(object))
	if err != nil {
		return reconcile.Result{}, err
	}
	d, err := c.decide(ctx, &s)
	if err == nil {
		err = c.act(ctx, f, object, &s, &d)
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("CertificateSigningRequest %s: %w", f.Name, err)
	}
	if d.NextAt.IsZero() {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{RequeueAfter: d.NextAt.Sub(s.Now)}, nil
}

// decide decides, again with the grants if they are needed. It reserves the slot of a
// certificate, which waits until then.
func (c *Controller) decide(ctx context.Context, s *csr.Situation) (csr.Decision, error) {
	d := csr.Decide(*s)
	if d.Verdict == csr.Review {
		var err error
		if s.Grants, err = c.reviews.of(ctx, s.Request, d.Reviews); err != nil {
			return d, err
		}
		if err := c.addServices(ctx, s, d.Reviews, nil); err != nil {
			return d, err
		}
		d = csr.Decide(*s)
	}
	if d.Verdict == csr.Approve || d.Verdict == csr.Sign {
		if until, why, waits := c.config.Pace.Waits(d.Share, s.Now); waits {
			d = csr.Limited(until, why)
		}
	}
	return d, nil
}

func (c *Controller) act(ctx context.Context, f *csr.Facts, object *certificatesv1.CertificateSigningRequest, s *csr.Situation, d *csr.Decision) error {
	if d.Verdict == csr.Approve {
		approved, err := requests.Approve(ctx, c.answers, object, csr.Approval(*d))
		if err != nil || approved == nil {
			return err
		}
		// The rest of the situation was just read; only the request has changed.
		s.Request.Approve(approved)
		object = approved
		*d = csr.Decide(*s)
	}
	switch d.Verdict {
	case csr.Wait:
		c.requests.Waits(f, 1+len(s.Grants), requests.Regarding(object), d.Reason, d.Message)
	case csr.Deny:
		return c.refused(ctx, f, object, *d, func() (bool, error) {
			denied, err := requests.Approve(ctx, c.answers, object, csr.Approval(*d))
			if denied != nil {
				c.requests.Wrote(ctx, denied.ResourceVersion)
			}
			return denied != nil, err
		})
	case csr.Fail:
		return c.refused(ctx, f, object, *d, func() (bool, error) {
			return c.status(ctx, f, s.Request, map[string]any{"conditions": csr.Failed(s.Request, *d)})
		})
	case csr.Sign:
		err := c.sign(ctx, f, object, *s, *d)
		if pending := issue.Waiting(err); pending != nil {
			d.NextAt = s.Now.Add(pending.Again)
			if !pending.Quiet(s.Now) {
				c.requests.Say(f, requests.Regarding(object), pending.Reason(), pending.Message)
			}
			return nil
		}
		return err
	case csr.Ignore, csr.Review, csr.Approve:
	}
	return nil
}

// refused denies or fails a request by write, and reports it.
func (c *Controller) refused(ctx context.Context, f *csr.Facts, object *certificatesv1.CertificateSigningRequest, d csr.Decision, write func() (written bool, err error)) error {
	written, err := write()
	if err != nil || !written {
		return err
	}
	c.requests.Failed(f, requests.Regarding(object), d.Reason, d.Message)
	log.FromContext(ctx).Info("certificate refused", "user", object.Spec.Username, "reason", d.Reason)
	return nil
}

// sign has the certificate signed and writes it. A failure is retried.
func (c *Controller) sign(ctx context.Context, f *csr.Facts, object *certificatesv1.CertificateSigningRequest, s csr.Situation, d csr.Decision) error {
	issued, err := issue.Certify(ctx, c.config.Sign, s.Authority, d.Key, d.Sign, s.Now)
	var chain []byte
	if err == nil {
		chain, err = csr.Certificate(d, issued)
	}
	written := false
	if err == nil {
		written, err = c.status(ctx, f, s.Request, map[string]any{"certificate": chain})
	}
	switch {
	case ctx.Err() != nil: // this process ends, and the next leader retries
		return err
	case issue.Waiting(err) != nil: // the CA has not answered yet
		return err
	case err != nil:
		reason := string(signer.ReasonOf(err, signer.ReasonSignFailed))
		c.requests.Failed(f, requests.Regarding(object), reason, err.Error())
		return err
	case written:
		c.requests.Issued(f)
		log.FromContext(ctx).Info("certificate issued for a request", "user", s.Request.Username, "names", d.Sign.DNSNames, "notAfter", issued.Leaf.NotAfter)
	}
	return nil
}

// status writes a part of the status, unless the request has changed since the decision.
func (c *Controller) status(ctx context.Context, f *csr.Facts, r *csr.Request, part map[string]any) (written bool, err error) {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": r.UID, "resourceVersion": r.ResourceVersion},
		"status":   part,
	})
	if err != nil {
		return false, fmt.Errorf("encode the status: %w", err)
	}
	object, err := c.answers.Patch(ctx, f.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	if written, err := requests.Written(err); !written {
		return false, err
	}
	c.requests.Wrote(ctx, object.ResourceVersion)
	return true, nil
}
