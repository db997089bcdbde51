package trust

import (
	"errors"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// classify says what kind of failure a failed write is. The message is the API
// server's: it names the rule, the webhook or the policy that refused.
func classify(err error) Judgement {
	refused := func(reason Reason) Judgement { return Judgement{StateRefuses, reason, err.Error()} }
	passing := func(reason Reason) Judgement { return Judgement{StatePending, reason, err.Error()} }
	var status apierrors.APIStatus
	switch {
	case !errors.As(err, &status):
		return passing(ReasonUnavailable)
	case apierrors.IsForbidden(err):
		return refused(ReasonForbidden)
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return refused(ReasonInvalid)
	case apierrors.IsConflict(err):
		return passing(ReasonConflict)
	case apierrors.IsTooManyRequests(err):
		return passing(ReasonTooManyRequests)
	case status.Status().Code >= http.StatusInternalServerError:
		return passing(ReasonUnavailable)
	}
	return refused(ReasonOther)
}

// isGone reports whether a write failed because its place went away: the
// namespace or the object is deleted or being deleted. The cache will say so too.
func isGone(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

// maxMessage bounds what is repeated of a message in the trust status, in
// characters.
const maxMessage = 200

func shorten(message string) string {
	if runes := []rune(message); len(runes) > maxMessage {
		return string(runes[:maxMessage]) + "…"
	}
	return message
}
