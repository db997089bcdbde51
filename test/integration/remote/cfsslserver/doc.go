// Package cfsslserver runs cfssl's own servers, cfssl serve and multirootca, for
// tests of a CA that is elsewhere:
//
//	site, err := cfsslserver.NewSite(ctx, dir)       // builds them; TLS, HMAC key
//	ca := cfsslserver.NewCA(t, "one")                // or ca.Below(t, "two")
//	server := site.Start(t, cfsslserver.Multirootca, ca)
//	args := site.Flags(server)                       // of cmd/signer
//
// A server that was stopped comes back at its address with Start, and with
// another CA with Use. Configuration and command lines are those of
// docs/remote-ca.md, word for word but for directory and address: what an operator
// copies from there is what the tests run.
package cfsslserver
