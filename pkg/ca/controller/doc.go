// Package controller keeps the CA of package ca in a cluster: it gathers a
// ca.Situation, lets package ca decide, and writes the decision, one object at a time,
// with its event. It provides the CA to the signer ([Controller.Authority]).
//
// The Secrets and ConfigMaps are read live, triggered by a watch of their metadata, so
// that no private key is cached.
package controller
