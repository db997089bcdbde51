package controller

import (
	"context"
	"encoding/json"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/servingcert/servingcert/pkg/facts"
	"github.com/servingcert/servingcert/pkg/signer"
	"github.com/servingcert/servingcert/pkg/signer/issue"
	"github.com/servingcert/servingcert/pkg/signer/podcert"
	"github.com/servingcert/servingcert/pkg/signer/requests"
)

// Controller answers PodCertificateRequests. Setup creates it.
type Controller struct {
	config   Config
	requests *requests.Followed[*podcert.Request]
	answers  rest.Interface // writes, in the version that is served
}

// Reconcile answers one request, or emits an event on its pod about what is missing.
func (c *Controller) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	return c.requests.Decide(request.NamespacedName, func(r *podcert.Request) (reconcile.Result, error) { return c.decideAndAct(ctx, r) })
}

func (c *Controller) decideAndAct(ctx context.Context, r *podcert.Request) (reconcile.Result, error) {
	s, d, err := c.decide(ctx, r)
	if err != nil {
		return reconcile.Result{}, err
	}
	if err := c.act(ctx, s, d); err != nil {
		return reconcile.Result{}, fmt.Errorf("PodCertificateRequest %s/%s: %w", r.Namespace, r.Name, err)
	}
	if d.NextAt.IsZero() {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{RequeueAfter: d.NextAt.Sub(s.Now)}, nil
}

// decide decides by the pod in the API server's cache and, unless the request is to be signed, again
// by the live pod: a stale pod must not cause a denial or a wait.
func (c *Controller) decide(ctx context.Context, r *podcert.Request) (s podcert.Situation, d podcert.Decision, err error) {
	for _, pod := range []readPod{c.config.Cluster.CachedPod, c.config.Cluster.Pod} {
		if s, err = c.gather(ctx, r, pod); err != nil {
			return s, d, err
		}
		if d = podcert.Decide(s); d.Verdict == podcert.Sign {
			break
		}
	}
	if d.Verdict == podcert.Sign {
		if until, why, waits := c.config.Pace.Waits(d.Share, s.Now); waits {
			d = podcert.Limited(until, why)
		}
	}
	return s, d, nil
}

func (c *Controller) act(ctx context.Context, s podcert.Situation, d podcert.Decision) error {
	switch d.Verdict {
	case podcert.Wait:
		c.requests.Waits(s.Request, 1, s.Pod, d.Reason, d.Message)
	case podcert.Deny:
		written, err := c.answer(ctx, s.Request, podcert.Denied(d, s.Now))
		if written {
			c.requests.Failed(s.Request, s.Pod, d.Reason, d.Message)
		}
		return err
	case podcert.Sign:
		return c.sign(ctx, s, d)
	case podcert.Ignore:
	}
	return nil
}

// sign has the certificate signed and writes it. A failure is retried, since Failed would be
// final for the pod.
func (c *Controller) sign(ctx context.Context, s podcert.Situation, d podcert.Decision) error {
	issued, err := issue.Certify(ctx, c.config.Sign, s.Authority, d.Key, d.Sign, s.Now)
	written := false
	if err == nil {
		written, err = c.answer(ctx, s.Request, podcert.Issued(issued, s.Now))
	}
	switch {
	case ctx.Err() != nil:
		return err // this process ends, and the next leader retries
	case err != nil:
		reason := string(signer.ReasonOf(err, signer.ReasonSignFailed))
		c.requests.Failed(s.Request, s.Pod, reason, err.Error())
		return err
	case written:
		c.requests.Issued(s.Request)
		log.FromContext(ctx).Info("certificate issued for a pod", "pod", s.Request.PodName, "names", d.Names(), "notAfter", issued.Leaf.NotAfter)
	}
	return nil
}

// readPod returns a pod, nil if there is none.
type readPod func(context.Context, types.NamespacedName) (*corev1.Pod, error)

// gather collects the situation. A namespace that is not opted in by the cache is read live, because
// the denial of a pod for that is final.
func (c *Controller) gather(ctx context.Context, r *podcert.Request, pod readPod) (s podcert.Situation, err error) {
	s = podcert.Situation{Now: c.config.Clock(), Request: r, MaxDuration: c.config.MaxDuration}
	s.Authority, s.Limits, s.AuthorityErr = c.config.CA()
	if s.OptedIn, s.Terminating, err = c.config.Cluster.LiveNamespace(ctx, r.Namespace); err != nil {
		return s, err
	}
	s.Pod, err = pod(ctx, types.NamespacedName{Namespace: r.Namespace, Name: r.PodName})
	if !r.Client {
		s.Services = c.config.Cluster.Selecting(s.Pod)
	}
	return s, err
}

// metadataOnly is the Accept header for a response that has only the object's metadata.
const metadataOnly = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"

// answer writes the status of a request, which the API server accepts once. It returns false if
// the request has changed since the decision.
func (c *Controller) answer(ctx context.Context, r *podcert.Request, status certificatesv1.PodCertificateRequestStatus) (written bool, _ error) {
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": r.UID, "resourceVersion": r.ResourceVersion},
		"status":   status,
	})
	if err != nil {
		return false, fmt.Errorf("encode the answer: %w", err)
	}
	raw, err := c.answers.Patch(types.MergePatchType).Namespace(r.Namespace).Resource(facts.PodCertificateRequests).Name(r.Name).SubResource("status").
		SetHeader("Accept", metadataOnly).Body(body).Do(ctx).Raw()
	if written, err := requests.Written(err); !written {
		return false, err
	}
	object := &metav1.PartialObjectMetadata{}
	if err := json.Unmarshal(raw, object); err != nil {
		return false, fmt.Errorf("decode the written status: %w", err)
	}
	c.requests.Wrote(ctx, object.ResourceVersion)
	return true, nil
}
