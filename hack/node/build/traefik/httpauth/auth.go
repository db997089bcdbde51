// Package auth rejects every password. It replaces Traefik's unpublished fork of a library, for its
// password middlewares, which no route here uses.
package auth

import "net/http"

// SecretProvider returns the secret of a user.
type SecretProvider func(user, realm string) string

// CheckSecret reports whether a password is correct: none is.
func CheckSecret(_, _ string) bool { return false }

// BasicAuth is basic authentication.
type BasicAuth struct {
	Realm   string
	Secrets SecretProvider
}

// RequireAuth rejects the request.
func (a *BasicAuth) RequireAuth(w http.ResponseWriter, _ *http.Request) { refuse(w) }

// DigestAuth is digest authentication.
type DigestAuth struct{}

// NewDigestAuthenticator returns an authenticator that accepts no user.
func NewDigestAuthenticator(string, SecretProvider) *DigestAuth { return &DigestAuth{} }

// CheckAuth returns no user.
func (a *DigestAuth) CheckAuth(*http.Request) (user string, info *string) { return "", nil }

// RequireAuth rejects the request.
func (a *DigestAuth) RequireAuth(w http.ResponseWriter, _ *http.Request) { refuse(w) }

// RequireAuthStale rejects the request.
func (a *DigestAuth) RequireAuthStale(w http.ResponseWriter, _ *http.Request) { refuse(w) }

// DigestAuthParams returns the parameters of a header: none.
func DigestAuthParams(string) map[string]string { return nil }

func refuse(w http.ResponseWriter) {
	http.Error(w, http.StatusText(http.StatusUnauthorized), http.StatusUnauthorized)
}
