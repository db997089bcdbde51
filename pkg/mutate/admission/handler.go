package admission

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate"
)

// Path is where the webhook answers.
const Path = "/mutate-v1-pod"

// auditReasons is the key of the audit annotation; the API server puts the
// webhook's name before it.
const auditReasons = "reasons"

// Handler answers reviews of pods that are created. It has no side effects, so
// that dry-run works, and needs none of the object's own namespace and name.
type Handler struct {
	// Cached returns what is known of a namespace without asking, if anything
	// is; Live asks. See [Lookup].
	Cached  func(ctx context.Context, namespace string) (mutate.Known, bool)
	Live    func(ctx context.Context, namespace string) (mutate.Known, error)
	Metrics *Metrics
	Log     logr.Logger
}

// ServeHTTP answers an AdmissionReview. Where there is no answer, because the
// cluster could not be asked or by a fault of ours, the HTTP status says so:
// a review that denies would refuse the pod whatever failurePolicy says.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	req, status, err := readReview(w, r)
	if err != nil {
		h.Metrics.count(resultFailed, reasonError, nil)
		h.Log.Error(err, "review failed: it cannot be read")
		http.Error(w, noAnswer+err.Error(), status)
		return
	}
	resp, err := h.reviewSafely(r.Context(), req)
	if err != nil {
		h.Metrics.count(resultFailed, reasonError, nil)
		http.Error(w, noAnswer+err.Error(), http.StatusInternalServerError)
		return
	}
	resp.UID = req.UID
	if err := writeReview(w, resp); err != nil {
		h.Log.V(1).Info("the answer could not be written", "namespace", req.Namespace, "error", err.Error())
	}
}

// noAnswer begins what a person reads when failurePolicy refuses their pod.
const noAnswer = "servingcert cannot tell whether the pod gets a certificate: "

// reviewSafely turns a panic into an error: the process goes on for others.
func (h *Handler) reviewSafely(ctx context.Context, req *request) (resp *admissionv1.AdmissionResponse, err error) {
	defer func() {
		if p := recover(); p != nil {
			h.Log.Error(fmt.Errorf("panic: %v", p), "review failed", "namespace", req.Namespace, "pod", req.Name, "stack", string(debug.Stack()))
			err = errors.New("an internal error, see the log of the webhook")
		}
	}()
	return h.review(ctx, req)
}

// review answers one review, or says why it cannot.
func (h *Handler) review(ctx context.Context, req *request) (*admissionv1.AdmissionResponse, error) {
	if req.Operation != admissionv1.Create || req.SubResource != "" || req.Resource.Group != "" || req.Resource.Resource != "pods" {
		h.Metrics.count(resultUntouched, mutate.ReasonNotConcerned, nil)
		return &admissionv1.AdmissionResponse{Allowed: true}, nil // only new pods are changed, whatever a configuration sends
	}
	pod := req.Object.Pod()
	asked, err := api.ParsePod(&pod.ObjectMeta)
	if err != nil {
		h.Log.V(1).Info("denied", "namespace", req.Namespace, "pod", req.Name, "reason", err.Error())
		h.Metrics.count(resultDenied, reasonBadAnnotation, nil)
		return denied(err), nil
	}
	choice, err := h.choose(ctx, pod, asked, req.Namespace)
	if err != nil {
		h.Log.Error(err, "review failed: the API server could not be asked", "namespace", req.Namespace, "pod", req.Name)
		return nil, err
	}
	patch, report := mutate.Inject(pod, asked, choice)
	if log := h.Log.V(1); log.Enabled() {
		log.Info("reviewed", "namespace", req.Namespace, "pod", req.Name, "reason", report.Reason, "secret", report.Secret, "by", report.By, "operations", len(patch))
	}
	became := resultUntouched
	if report.Injected() {
		became = resultInjected
	}
	h.Metrics.count(became, report.Reason, report.Notes)
	return answer(patch, report)
}

// choose asks the informers, and the API server where those do not settle it: a
// Service that was created before its pod is seen, however fast the pod follows.
func (h *Handler) choose(ctx context.Context, pod *corev1.Pod, asked api.PodRequest, namespace string) (mutate.Choice, error) {
	if !mutate.NeedsLookup(pod, asked) {
		return mutate.Choice{}, nil
	}
	if known, ok := h.Cached(ctx, namespace); ok {
		if choice := mutate.Choose(pod, asked, known); choice.FromServices() {
			return choice, nil
		}
	}
	h.Metrics.liveReads.Inc()
	known, err := h.Live(ctx, namespace)
	if err != nil {
		return mutate.Choice{}, err
	}
	return mutate.Choose(pod, asked, known), nil
}

func denied(err error) *admissionv1.AdmissionResponse {
	return &admissionv1.AdmissionResponse{
		Result: &metav1.Status{Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: err.Error()},
	}
}

func answer(patch mutate.Patch, report mutate.Report) (*admissionv1.AdmissionResponse, error) {
	resp := &admissionv1.AdmissionResponse{Allowed: true, Warnings: report.Warnings()}
	if report.Concerned() {
		reasons := report.Reasons()
		words := make([]string, len(reasons))
		for i, r := range reasons {
			words[i] = string(r)
		}
		resp.AuditAnnotations = map[string]string{auditReasons: strings.Join(words, ",")}
	}
	data, err := patch.JSON()
	if err != nil {
		return nil, fmt.Errorf("write the patch: %w", err)
	}
	if data != nil {
		kind := admissionv1.PatchTypeJSONPatch
		resp.Patch, resp.PatchType = data, &kind
	}
	return resp, nil
}
