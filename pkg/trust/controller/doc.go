// Package controller keeps the CA bundle in its targets, and the trust status that
// reports on them. What it does is decided by package trust: each reconciler
// gathers a situation from caches, has it decided, and acts.
//
// Each kind of target has a cache and a controller of its own (a keeper), which
// start when the API server lets the kind be listed and watched: a kind that it
// does not serve, or that may not be watched, keeps no other from being kept.
// Another controller writes the trust status.
package controller
