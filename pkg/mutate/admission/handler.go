package admission

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate"
	"github.com/servingcert/servingcert/pkg/mutate/choose"
	"github.com/servingcert/servingcert/pkg/mutate/podpatch"
	"github.com/servingcert/servingcert/pkg/mutate/programs"
	"github.com/servingcert/servingcert/pkg/mutate/rules"
)

// Path is where the webhook answers.
const Path = "/mutate-v1-pod"

// auditReasons is the key of the audit annotation, which the API server prefixes
// with the webhook's name.
const auditReasons = "reasons"

// handler answers reviews of pods that are created. It has no side effects, so
// dry-run works. It uses the namespace of the request, because that of the object
// may be empty.
type handler struct {
	// cached returns what the informers know of a namespace, or false if they have
	// not synced; live reads from the API server. See [Lookup].
	cached func(ctx context.Context, namespace string) (choose.Known, bool)
	live   func(ctx context.Context, namespace string) (choose.Known, error)
	// programs returns the programs that are known.
	programs func() *programs.Table
	// podKeys reports whether kubelets make keys.
	podKeys func(ctx context.Context) (bool, error)
	config  choose.Config // without Programs
	inbox   *inbox
	room    room
	metrics *metrics
	clock   func() time.Time
	log     logr.Logger
}

// ServeHTTP answers an AdmissionReview. If the pod cannot be decided about, because
// the API server cannot be read or because of a bug, the answer is an HTTP error: a
// review that denies would refuse the pod whatever failurePolicy says.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	started := h.clock()
	o := h.serve(w, r)
	h.metrics.took(o, h.clock().Sub(started))
}

// serve answers, and returns how.
func (h *handler) serve(w http.ResponseWriter, r *http.Request) outcome {
	b := h.inbox.open(endRead(w))
	defer b.close()
	data, status, err := receive(w, r, b)
	if err != nil {
		return h.refuse(w, status, err)
	}
	release, err := h.room.enter(r.Context(), int64(len(data)))
	if err != nil {
		return h.refuse(w, http.StatusTooManyRequests, err)
	}
	defer release()
	req, status, err := parse(data)
	if err != nil {
		return h.refuse(w, status, err)
	}
	a, err := h.reviewSafely(r.Context(), req)
	if err != nil {
		h.metrics.count(resultFailed, reasonError, nil)
		http.Error(w, noAnswer+err.Error(), http.StatusInternalServerError)
		return outcomeFailed
	}
	a.UID = req.UID
	if err := writeReview(w, a); err != nil {
		h.log.V(1).Info("cannot write the response", "namespace", req.Namespace, "error", err.Error())
		return outcomeFailed
	}
	return outcomeOf(a)
}

// refuse answers a request that is no review, or that comes at a wrong moment. It is
// counted, and logged for those alone who look for it: anybody can send any number of them.
// The API server repeats the answer to whoever creates the pod.
func (h *handler) refuse(w http.ResponseWriter, status int, err error) outcome {
	reason := reasonError
	if status == http.StatusTooManyRequests {
		reason = reasonTooMany
		w.Header().Set("Retry-After", "1") // the API server tries again
	}
	h.log.V(1).Info("review failed: cannot read the request", "status", status, "error", err.Error())
	h.metrics.count(resultFailed, reason, nil)
	http.Error(w, noAnswer+err.Error(), status)
	return outcomeFailed
}

// noAnswer is the prefix of what a person reads when failurePolicy refuses their pod.
const noAnswer = "servingcert cannot tell whether the pod gets a certificate: "

// reviewSafely turns a panic into an error, so that other reviews go on.
func (h *handler) reviewSafely(ctx context.Context, req *request) (a *answer, err error) {
	defer func() {
		if p := recover(); p != nil {
			h.log.Error(fmt.Errorf("panic: %v", p), "review failed: panic", "namespace", req.Namespace, "pod", req.Name, "stack", string(debug.Stack()))
			err = errors.New("internal error: see the webhook's log")
		}
	}()
	return h.review(ctx, req)
}

// review answers one review, or returns why it cannot.
func (h *handler) review(ctx context.Context, req *request) (*answer, error) {
	if req.Operation != admissionv1.Create || req.SubResource != "" || req.Resource.Group != "" || req.Resource.Resource != "pods" {
		h.metrics.count(resultUntouched, rules.NotConcerned, nil)
		return allowedAsItIs(), nil // only new pods are changed, whatever a configuration sends
	}
	pod := req.Object.Pod()
	wanted, err := api.ParsePod(&pod.ObjectMeta)
	if err != nil {
		return h.deny(req, reasonBadAnnotation, err), nil
	}
	choice, err := h.choose(ctx, pod, wanted, req.Namespace)
	if errors.Is(err, errNotOptedIn) {
		h.log.V(1).Info("untouched", "namespace", req.Namespace, "pod", req.Name, "reason", err.Error())
		h.metrics.count(resultUntouched, reasonNotOptedIn, nil)
		return allowedAsItIs("servingcert: nothing is injected: " + err.Error()), nil
	}
	if err != nil {
		h.log.Error(err, "review failed: cannot read from the API server", "namespace", req.Namespace, "pod", req.Name)
		return nil, err
	}
	patch, report, err := mutate.Inject(pod, wanted, choice)
	if err != nil {
		reason := reasonTooLarge
		if errors.As(err, new(*mutate.NoPodKeysError)) {
			reason = reasonNoPodKeys
		}
		return h.deny(req, reason, err), nil
	}
	if log := h.log.V(1); log.Enabled() {
		log.Info("reviewed", "namespace", req.Namespace, "pod", req.Name, "reason", report.Reason, "secret", report.Secret, "by", report.By, "operations", len(patch))
	}
	outcome := resultUntouched
	if report.Injected() {
		outcome = resultInjected
	}
	h.metrics.count(outcome, report.Reason, report.Notes)
	return answerOf(patch, report), nil
}

// choose decides from the informers, or else from a read of the API server: a Service
// that was created before its pod is always seen, however soon the pod follows.
func (h *handler) choose(ctx context.Context, pod *corev1.Pod, wanted api.PodRequest, namespace string) (choose.Choice, error) {
	if !mutate.NeedsLookup(pod, wanted) {
		return choose.Choice{}, nil
	}
	if known, ok := h.cached(ctx, namespace); ok {
		if choice := choose.Secret(pod, wanted, h.with(known)); choice.FromServices() {
			return h.checked(ctx, choice)
		}
	}
	h.metrics.liveReads.Inc()
	known, err := h.live(ctx, namespace)
	if err != nil {
		return choose.Choice{}, err
	}
	return h.checked(ctx, choose.Secret(pod, wanted, h.with(known)))
}

// with returns what is known, with what is the same for all namespaces.
func (h *handler) with(known choose.Known) choose.Known {
	known.Config = h.config
	known.Programs = h.programs()
	return known
}

// checked returns the choice, with whether there are kubelets that make the key if the
// pod is to have its own.
func (h *handler) checked(ctx context.Context, choice choose.Choice) (choose.Choice, error) {
	if choice.PodKey == nil {
		return choice, nil
	}
	served, err := h.podKeys(ctx)
	choice.NoPodKeys = !served
	return choice, err
}

// deny refuses the pod.
func (h *handler) deny(req *request, reason rules.Reason, err error) *answer {
	h.log.V(1).Info("denied", "namespace", req.Namespace, "pod", req.Name, "reason", err.Error())
	h.metrics.count(resultDenied, reason, nil)
	return &answer{AdmissionResponse: admissionv1.AdmissionResponse{
		Result: &metav1.Status{Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: err.Error()},
	}}
}

// allowedAsItIs allows the pod without a change.
func allowedAsItIs(warnings ...string) *answer {
	return &answer{AdmissionResponse: admissionv1.AdmissionResponse{Allowed: true, Warnings: warnings}}
}

// answerOf returns the answer about a pod that is not denied.
func answerOf(patch podpatch.Patch, report mutate.Report) *answer {
	a := &answer{patch: patch}
	a.Allowed, a.Warnings = true, report.Warnings()
	if report.Concerned() {
		var reasons []string
		for _, r := range report.Reasons() {
			reasons = append(reasons, string(r))
		}
		a.AuditAnnotations = map[string]string{auditReasons: strings.Join(reasons, ",")}
	}
	return a
}
