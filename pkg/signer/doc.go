// Package signer decides which Secret gets which serving certificate and why, and
// what its Services say of it. It is pure: it gets what it needs to know as arguments, the time
// included.
//
// The unit of work is a Secret, since several Services may share one. A reconcile
// is six calls; those marked * are the shell's, package controller below this one:
//
//	gather*   what the caches hold            -> Situation
//	ClaimOf   Situation                       -> Claim: what the Services want of the Secret
//	Decide    Situation, Claim                -> Decision: what to do with the Secret, and why
//	issue     if there is to be a certificate -> issue.Issued: a key and a checked certificate
//	write*    Content, in one write           -> Outcome: what the Secret holds now, or why not
//	Settle    Situation, Decision, Outcome    -> Settlement: conditions, annotations and events
//	                                             of the Services, and when to look again
//
// Where to find, and change, what:
//
//   - why a certificate is replaced, now or at a time: a check and its row in a table,
//     policy.go;
//   - which Services share a Secret, who owns it, and so whether it may be written at all: claim.go;
//   - what a Secret holds: contentOf, content.go; the value that it returns is created,
//     compared, patched and remembered;
//   - what is remembered of a Secret, never its key: facts.go, and who signed its leaf:
//     verification.go; what is kept of a Service: keep.go;
//   - what a Service says of its certificate: settle.go and condition.go, for people and, by
//     package api, for other processes; of the keys of its pods: podkeys.go;
//   - reasons and problems, for whoever reads them: reason.go.
//
// Packages below this one: issue has a CA sign, and checks what it signed; cfssl has CAs that sign;
// pace says how often; directory finds the Services that requests of csr and podcert concern.
package signer
