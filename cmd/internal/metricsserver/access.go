package metricsserver

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/semaphore"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
)

// Limits of the questions to the API server. Whoever reaches the port can cause them, with
// tokens that nobody has issued.
const (
	maxReviews    = 4                // at the same time; other requests wait
	reviewTimeout = 10 * time.Second // to wait, and for both answers
)

// reviewer asks the API server who somebody is and what they may do.
//
// controller-runtime has a filter that asks the same. It brings k8s.io/apiserver with it,
// and 256 packages: such a process is 30 MB larger, needs 17 MB more memory, and contains
// gRPC, OpenTelemetry and CEL. The signer, which holds the CA, is to contain little.
type reviewer struct {
	authentication authenticationclient.TokenReviewsGetter
	authorization  authorizationclient.SubjectAccessReviewsGetter
}

// user returns whose token it is. It is false if the API server does not accept the token.
func (r reviewer) user(ctx context.Context, token string) (authenticationv1.UserInfo, bool, error) {
	review, err := r.authentication.TokenReviews().Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token},
	}, metav1.CreateOptions{})
	if err != nil {
		return authenticationv1.UserInfo{}, false, fmt.Errorf("create TokenReview: %w", err)
	}
	return review.Status.User, review.Status.Authenticated, nil
}

// mayGet reports whether the user may get the path.
func (r reviewer) mayGet(ctx context.Context, user authenticationv1.UserInfo, path string) (bool, error) {
	extra := make(map[string]authorizationv1.ExtraValue, len(user.Extra))
	for key, values := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	review, err := r.authorization.SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
			NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: path, Verb: "get"},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("create SubjectAccessReview: %w", err)
	}
	return review.Status.Allowed && !review.Status.Denied, nil
}

// gate lets those pass who bring a token of somebody who may get Path. Nothing is
// remembered: two questions for a scrape cost the API server little, and a right that is
// taken away ends at once.
type gate struct {
	ask   reviewer
	slots *semaphore.Weighted
	log   logr.Logger
	next  http.Handler
}

func newGate(ask reviewer, log logr.Logger, next http.Handler) *gate {
	return &gate{ask, semaphore.NewWeighted(maxReviews), log, next}
}

// ServeHTTP implements http.Handler. It answers 401 without a token that the API server
// accepts, 403 to those who may not get Path, and 503 if the API server gives no answer or
// too many others are being asked about.
func (g *gate) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	status, message := http.StatusUnauthorized, "a bearer token is needed"
	if req.Method != http.MethodGet {
		status, message = http.StatusMethodNotAllowed, "only GET is allowed"
	} else if token, ok := bearer(req.Header.Get("Authorization")); ok {
		status, message = g.check(req.Context(), token)
	}
	switch status {
	case http.StatusOK:
		g.next.ServeHTTP(w, req)
		return
	case http.StatusMethodNotAllowed:
		w.Header().Set("Allow", http.MethodGet)
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	w.Header().Set("Connection", "close") // it is kept for those alone who may read
	http.Error(w, message, status)
}

// check returns the status for a request with the token, and what to say if it is not 200.
func (g *gate) check(ctx context.Context, token string) (status int, message string) {
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	if g.slots.Acquire(ctx, 1) != nil {
		return http.StatusServiceUnavailable, "too many requests wait for the API server to say who sent them"
	}
	defer g.slots.Release(1)
	user, known, err := g.ask.user(ctx, token)
	if err != nil {
		return g.unanswered(err)
	}
	if !known {
		return http.StatusUnauthorized, "the API server does not accept the token"
	}
	allowed, err := g.ask.mayGet(ctx, user, Path)
	if err != nil {
		return g.unanswered(err)
	}
	if !allowed {
		return http.StatusForbidden, fmt.Sprintf("user %q may not get %s", user.Username, Path)
	}
	return http.StatusOK, ""
}

// unanswered logs why the API server cannot be asked, which the client is not told.
func (g *gate) unanswered(err error) (status int, message string) {
	g.log.Error(err, "cannot find out who may read the metrics")
	return http.StatusServiceUnavailable, "the API server does not say who may read the metrics"
}

// bearer returns the token of an Authorization header. It is false if there is none.
func bearer(header string) (token string, ok bool) {
	scheme, token, _ := strings.Cut(strings.TrimSpace(header), " ")
	token = strings.TrimSpace(token)
	return token, strings.EqualFold(scheme, "Bearer") && token != ""
}
