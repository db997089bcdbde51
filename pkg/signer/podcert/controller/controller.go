package controller

import (
	"context"
	"encoding/json"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/servingcert/servingcert/pkg/facts"
	"github.com/servingcert/servingcert/pkg/signer"
	"github.com/servingcert/servingcert/pkg/signer/podcert"
)

// Controller answers PodCertificateRequests. Setup makes it.
type Controller struct {
	config   Config
	requests *facts.Informer[*podcert.Request]
	answers  rest.Interface // writes, in the version that is served
	live     client.Reader  // the API server itself
	cache    client.Reader  // Services and opted-in Namespaces
	events   events.EventRecorder
	metrics  *metrics

	answered *facts.Written[struct{}]
	said     *facts.Said
}

// Reconcile answers one request, or says on its pod what is missing.
func (c *Controller) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	r := c.requests.Get(request.NamespacedName)
	now := c.config.Clock()
	if r == nil || !r.Pending {
		return reconcile.Result{}, nil
	}
	if _, behind := c.answered.Newer(request.NamespacedName, r.ResourceVersion, now); behind {
		return reconcile.Result{}, nil
	}
	s, err := c.gather(ctx, r)
	if err != nil {
		return reconcile.Result{}, err
	}
	d := podcert.Decide(s)
	switch d.Verdict {
	case podcert.Wait:
		c.say(r, s.Pod, d.Reason, d.Message)
	case podcert.Deny:
		c.say(r, s.Pod, d.Reason, d.Message)
		c.metrics.failed(d.Reason)
		return reconcile.Result{}, c.answer(ctx, r, podcert.Denied(d, now))
	case podcert.Sign:
		return reconcile.Result{}, c.sign(ctx, s, d)
	case podcert.Ignore:
	}
	if d.NextAt.IsZero() {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{RequeueAfter: d.NextAt.Sub(now)}, nil
}

// sign has the certificate signed and writes it. What fails is tried again: Failed would
// be final for the pod.
func (c *Controller) sign(ctx context.Context, s podcert.Situation, d podcert.Decision) error {
	issued, err := signer.Certify(ctx, c.config.Sign, s.Authority, d.Key, d.Sign, s.Now)
	if err == nil {
		err = c.answer(ctx, s.Request, podcert.Issued(issued, s.Now))
	}
	switch {
	case ctx.Err() != nil:
		return err // this process ends, and another does what it could not
	case err != nil:
		reason := string(signer.ReasonOf(err, signer.ReasonSignFailed))
		c.metrics.failed(reason)
		c.say(s.Request, s.Pod, reason, err.Error())
		return fmt.Errorf("PodCertificateRequest %s/%s: %w", s.Request.Namespace, s.Request.Name, err)
	}
	c.metrics.issued.Inc()
	log.FromContext(ctx).Info("certificate issued for a pod", "pod", s.Request.PodName, "names", d.Sign.DNSNames, "notAfter", issued.Leaf.NotAfter)
	return nil
}

// optedIn is an empty Namespace, of which the signer's cache holds the opted-in ones.
func optedIn() *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{}
	o.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return o
}

// gather collects the situation: all from caches but the pod, which is read live.
func (c *Controller) gather(ctx context.Context, r *podcert.Request) (podcert.Situation, error) {
	s := podcert.Situation{Now: c.config.Clock(), Request: r, Limits: c.config.Limits, MaxDuration: c.config.MaxDuration}
	if s.Authority, s.AuthorityErr = c.config.Authority(); s.AuthorityErr == nil {
		s.Limits.FormerDomains = s.Authority.FormerDomains
	}
	namespace := optedIn()
	switch err := c.cache.Get(ctx, types.NamespacedName{Name: r.Namespace}, namespace); {
	case err == nil:
		s.OptedIn, s.Terminating = true, namespace.DeletionTimestamp != nil
	case !apierrors.IsNotFound(err):
		return s, fmt.Errorf("get Namespace %s: %w", r.Namespace, err)
	}
	var list corev1.ServiceList
	asking := client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector(byAsking, "true")}
	if err := c.cache.List(ctx, &list, client.InNamespace(r.Namespace), asking); err != nil {
		return s, fmt.Errorf("list Services: %w", err)
	}
	for i := range list.Items {
		s.Services = append(s.Services, &list.Items[i])
	}
	var pod corev1.Pod
	switch err := c.live.Get(ctx, types.NamespacedName{Namespace: r.Namespace, Name: r.PodName}, &pod); {
	case err == nil:
		s.Pod = &pod
	case !apierrors.IsNotFound(err):
		return s, fmt.Errorf("read Pod %s/%s: %w", r.Namespace, r.PodName, err)
	}
	return s, nil
}

// answer writes the status of a request, if it has none. The API server takes one.
func (c *Controller) answer(ctx context.Context, r *podcert.Request, status certificatesv1.PodCertificateRequestStatus) error {
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": r.UID, "resourceVersion": r.ResourceVersion},
		"status":   status,
	})
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	raw, err := c.answers.Patch(types.MergePatchType).Namespace(r.Namespace).Resource(facts.PodCertificateRequests).Name(r.Name).SubResource("status").
		SetHeader("Accept", "application/json").Body(body).Do(ctx).Raw()
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil // deleted, or answered by another; the cache will show it
	case err != nil:
		return fmt.Errorf("write the answer: %w", err)
	}
	written := &metav1.PartialObjectMetadata{}
	if err := json.Unmarshal(raw, written); err != nil {
		return fmt.Errorf("read what was written: %w", err)
	}
	c.answered.Put(client.ObjectKeyFromObject(r), written.ResourceVersion, struct{}{}, c.config.Clock())
	return nil
}
