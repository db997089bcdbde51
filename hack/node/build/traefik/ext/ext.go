// Package ext is what Traefik's configuration is extended by: nothing. Traefik has it in a
// directory of its own repository, which its module leaves out.
package ext

// HTTP is added to the configuration of HTTP.
type HTTP struct{}

// Router is added to that of a router.
type Router struct{}
