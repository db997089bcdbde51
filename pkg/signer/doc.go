// Package signer decides which Secret gets which serving certificate and why, and
// issues it. It is pure: it gets what it needs to know as arguments, the time
// included, and talks to nobody but the CA behind [Sign].
//
// The unit of work is a Secret, since several Services may share one. A reconcile
// is five calls; those marked * are the shell's, package controller below this one:
//
//	gather*   what the caches hold            -> Situation
//	Decide    Situation                       -> Decision: what to do with the Secret, and why
//	Issue     if there is to be a certificate -> Issued: a key and a checked certificate
//	write*    Content, in one write           -> Outcome: what the Secret holds now, or why not
//	Settle    Situation, Decision, Outcome    -> Settlement: conditions, annotations and events
//	                                             of the Services, and when to look again
//
// Where to find, and change, what:
//
//   - why a certificate is replaced, now or at a time: a check and its line in a list,
//     policy.go;
//   - whose a Secret is, and so whether it may be written at all: owner.go;
//   - what a Secret holds: contentOf, content.go; the value that it returns is created,
//     compared, patched and remembered;
//   - what is remembered of a Secret, never its key: facts.go;
//   - what is issued, and what is checked before anyone sees it: sign.go and check.go;
//   - what a Service says of its certificate: condition.go, for people and, by
//     package api, for other processes.
//
// Package cfssl below this one has CAs that sign behind [Sign].
package signer
