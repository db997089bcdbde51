package controller

import (
	"errors"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/trust"
)

// attempted returns the result of a write that returned err, which is nil if it
// succeeded.
func attempted(err error) trust.Attempt {
	switch {
	case err == nil:
		return trust.Attempt{Wrote: true}
	case isGone(err):
		return trust.Attempt{Gone: true}
	}
	return trust.Attempt{Failure: classify(err)}
}

// classify returns the evaluation of a target that a write failed for. The message is
// the API server's: it names the rule, the webhook or the policy that refused.
func classify(err error) trust.Evaluation {
	message := api.Shorten(err.Error(), api.TrustMaxMessage) // it is remembered for each target
	refused := func(reason trust.Reason) trust.Evaluation {
		return trust.Evaluation{State: trust.StateRefuses, Reason: reason, Message: message}
	}
	passing := func(reason trust.Reason) trust.Evaluation {
		return trust.Evaluation{State: trust.StatePending, Reason: reason, Message: message}
	}
	var status apierrors.APIStatus
	switch {
	case !errors.As(err, &status):
		return passing(trust.ReasonUnavailable)
	case apierrors.IsForbidden(err):
		return refused(trust.ReasonForbidden)
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return refused(trust.ReasonInvalid)
	case apierrors.IsConflict(err):
		return passing(trust.ReasonConflict)
	case apierrors.IsTooManyRequests(err):
		return passing(trust.ReasonTooManyRequests)
	case status.Status().Code >= http.StatusInternalServerError:
		return passing(trust.ReasonUnavailable)
	}
	return refused(trust.ReasonOther)
}

// advised returns the attempt with advice before the message of a failure that
// rights are the reason for; "" is none.
func advised(attempt trust.Attempt, advice string) trust.Attempt {
	if advice != "" && attempt.Failure.Reason == trust.ReasonForbidden {
		attempt.Failure.Message = advice + ": " + attempt.Failure.Message
	}
	return attempt
}

// isGone reports whether a write failed because its target went away: the
// namespace or the object is deleted or being deleted. The cache will show it too.
func isGone(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}
