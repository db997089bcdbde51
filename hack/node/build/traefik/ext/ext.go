// Package ext contains the extensions of Traefik's configuration: none. In Traefik's repository it is
// in a directory that is not part of the module.
package ext

// HTTP extends the HTTP configuration.
type HTTP struct{}

// Router extends the configuration of a router.
type Router struct{}
