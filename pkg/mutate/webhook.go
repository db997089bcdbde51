package mutate

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
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/servingcert/servingcert/pkg/api"
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
	Cached  func(ctx context.Context, namespace string) (Known, bool)
	Live    func(ctx context.Context, namespace string) (Known, error)
	Metrics *Metrics
	Log     logr.Logger
}

// HTTP returns the handler of AdmissionReviews. Where there is no answer, because
// the cluster could not be asked or by a fault of ours, the HTTP status says so:
// a review that denies would refuse the pod whatever failurePolicy says.
func (h *Handler) HTTP() http.Handler {
	hook := &admission.Webhook{
		Handler:        admission.HandlerFunc(h.answerOrFail),
		LogConstructor: func(logr.Logger, *admission.Request) logr.Logger { return h.Log },
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		failure := &failure{ResponseWriter: w}
		hook.ServeHTTP(failure, r.WithContext(context.WithValue(r.Context(), failureKey{}, failure)))
	})
}

// answerOrFail leaves an error with the writer that HTTP put into ctx.
func (h *Handler) answerOrFail(ctx context.Context, req admission.Request) (resp admission.Response) {
	failure := ctx.Value(failureKey{}).(*failure)
	defer func() {
		if p := recover(); p != nil {
			h.Log.Error(fmt.Errorf("panic: %v", p), "review failed", "namespace", req.Namespace, "pod", req.Name, "stack", string(debug.Stack()))
			failure.err = errors.New("an internal error, see the log of the webhook")
			h.Metrics.count(resultFailed, reasonError, nil)
		}
	}()
	resp, failure.err = h.review(ctx, req)
	return resp
}

type failureKey struct{}

// failure writes an error instead of an answer if there is one.
type failure struct {
	http.ResponseWriter
	err error
}

func (f *failure) Write(answer []byte) (int, error) {
	if f.err == nil {
		f.Header().Set("Content-Type", "application/json")
		return f.ResponseWriter.Write(answer)
	}
	http.Error(f.ResponseWriter, "servingcert cannot tell whether the pod gets a certificate: "+f.err.Error(), http.StatusInternalServerError)
	return len(answer), nil
}

// review answers one review, or says why it cannot.
func (h *Handler) review(ctx context.Context, req admission.Request) (admission.Response, error) {
	if req.Operation != admissionv1.Create || req.SubResource != "" || req.Resource.Group != "" || req.Resource.Resource != "pods" {
		h.Metrics.count(resultUntouched, ReasonNotConcerned, nil)
		return admission.Allowed(""), nil // only new pods are changed, whatever a configuration sends
	}
	log := h.Log.WithValues("namespace", req.Namespace, "pod", req.Name)
	pod, err := decodePod(req.Object.Raw)
	if err != nil {
		log.Error(err, "review failed: the pod cannot be read")
		h.Metrics.count(resultFailed, reasonError, nil)
		return admission.Response{}, fmt.Errorf("read the pod: %w", err)
	}
	request, err := api.ParsePod(&pod.ObjectMeta)
	if err != nil {
		log.V(1).Info("denied", "reason", err.Error())
		h.Metrics.count(resultDenied, reasonBadAnnotation, nil)
		return denied(err), nil
	}
	choice, err := h.choose(ctx, pod, request, req.Namespace)
	if err != nil {
		log.Error(err, "review failed: the API server could not be asked")
		h.Metrics.count(resultFailed, reasonError, nil)
		return admission.Response{}, err
	}
	patch, report := Inject(pod, request, choice)
	log.V(1).Info("reviewed", "reason", report.Reason, "secret", report.Secret, "by", report.By, "operations", len(patch))
	if report.Injected() {
		h.Metrics.count(resultInjected, report.Reason, report.Notes)
	} else {
		h.Metrics.count(resultUntouched, report.Reason, report.Notes)
	}
	return answer(patch, report)
}

// choose asks the informers, and the API server where those do not settle it: a
// Service that was created before its pod is seen, however fast the pod follows.
func (h *Handler) choose(ctx context.Context, pod *corev1.Pod, request api.PodRequest, namespace string) (Choice, error) {
	if alone(pod, request) {
		return Choice{}, nil
	}
	if known, ok := h.Cached(ctx, namespace); ok {
		if choice := Choose(pod, request, known); choice.FromServices() {
			return choice, nil
		}
	}
	h.Metrics.liveReads.Inc()
	known, err := h.Live(ctx, namespace)
	if err != nil {
		return Choice{}, err
	}
	return Choose(pod, request, known), nil
}

// alone reports whether the pod is left alone whatever its namespace holds.
func alone(pod *corev1.Pod, request api.PodRequest) bool {
	in := &input{pod: pod, request: request, choice: Choice{By: ByPod}}
	for _, check := range podChecks {
		if check.applies(in) {
			return ruleOf(check.reason).Silent
		}
	}
	return false
}

func denied(err error) admission.Response {
	return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{
		Result: &metav1.Status{Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: err.Error()},
	}}
}

func answer(patch Patch, report Report) (admission.Response, error) {
	resp := admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{Allowed: true, Warnings: report.Warnings()}}
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
		return admission.Response{}, fmt.Errorf("write the patch: %w", err)
	}
	if data != nil {
		kind := admissionv1.PatchTypeJSONPatch
		resp.Patch, resp.PatchType = data, &kind
	}
	return resp, nil
}
