// Package auth refuses every password. It has what Traefik's middlewares for passwords need of a
// library that Traefik has a fork of, which is published nowhere; no route here uses them.
package auth

import "net/http"

// SecretProvider returns the secret of a user.
type SecretProvider func(user, realm string) string

// CheckSecret reports whether a password is right: none is.
func CheckSecret(_, _ string) bool { return false }

// BasicAuth is basic authentication.
type BasicAuth struct {
	Realm   string
	Secrets SecretProvider
}

// RequireAuth refuses the request.
func (a *BasicAuth) RequireAuth(w http.ResponseWriter, _ *http.Request) { refuse(w) }

// DigestAuth is digest authentication.
type DigestAuth struct{}

// NewDigestAuthenticator returns one that accepts nobody.
func NewDigestAuthenticator(string, SecretProvider) *DigestAuth { return &DigestAuth{} }

// CheckAuth returns no user.
func (a *DigestAuth) CheckAuth(*http.Request) (user string, info *string) { return "", nil }

// RequireAuth refuses the request.
func (a *DigestAuth) RequireAuth(w http.ResponseWriter, _ *http.Request) { refuse(w) }

// RequireAuthStale refuses the request.
func (a *DigestAuth) RequireAuthStale(w http.ResponseWriter, _ *http.Request) { refuse(w) }

// DigestAuthParams returns the parameters of a header: none.
func DigestAuthParams(string) map[string]string { return nil }

func refuse(w http.ResponseWriter) {
	http.Error(w, http.StatusText(http.StatusUnauthorized), http.StatusUnauthorized)
}
