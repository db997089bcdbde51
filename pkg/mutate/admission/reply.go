package admission

import (
	"context"
	"encoding/json"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
)

// reply is the answer to one request. Without a review of ours it is an HTTP error: a review that
// denies, with which controller-runtime answers every error, would refuse the pod whatever
// failurePolicy says.
type reply struct {
	http.ResponseWriter
	// outcome is outcomeFailed until the handler has decided.
	outcome outcome
	body    body
	// why is why there is no review, once that was written.
	why string
}

// noAnswer is the prefix of what a person reads when failurePolicy refuses their pod.
const noAnswer = "servingcert cannot tell whether the pod gets a certificate: "

// Write writes a review, which is all of the body.
func (r *reply) Write(data []byte) (int, error) {
	if r.outcome != outcomeFailed {
		r.Header().Set("Content-Type", "application/json")
		return r.ResponseWriter.Write(data)
	}
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(data, &review); err != nil {
		return 0, err
	}
	r.why = review.Response.Result.Message
	code := int(review.Response.Result.Code)
	if r.body.tooMany { // the API server sends it again
		r.Header().Set("Retry-After", "1")
		code = http.StatusTooManyRequests
	}
	http.Error(r.ResponseWriter, noAnswer+r.why, code)
	return len(data), nil
}

// replyKey is that of a reply in the context of its request.
type replyKey struct{}

// replyOf returns the reply of a request's context.
func replyOf(ctx context.Context) *reply { return ctx.Value(replyKey{}).(*reply) }
