// Package controller keeps the CA of package ca in a cluster: it gathers what a
// ca.Situation says, has package ca decide, and writes what was decided, one object
// at a time, with its event. It hands the CA to the signer ([Controller.Authority]).
//
// The Secrets and ConfigMaps are read live, and a watch of their metadata says when:
// no private key lies in a cache.
package controller
