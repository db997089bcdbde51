// Package signer decides which Secret gets which serving certificate and why, and
// what the status of its Services reports. It is pure: all input, including the time, is passed in
// as arguments.
//
// The unit of work is a Secret, since several Services may share one. A reconcile
// is six calls; those marked * are the shell's, package controller below this one:
//
//	gather*         what the caches hold         -> Situation
//	OwnershipOf     Situation                    -> Ownership: the Services with a part in the Secret
//	Decide          Situation, Ownership         -> Decision: what to do with the Secret, and why
//	issue           if a certificate is issued   -> issue.Issued: a key and a checked certificate
//	write*          Content, in one write        -> Outcome: what the Secret holds now, or why not
//	StatusUpdateOf  Situation, Decision, Outcome -> StatusUpdate: conditions, annotations and events
//	                                                of the Services, and when to reconcile again
//
// Where to make a change:
//
//   - why a certificate is issued, now or at a time: a check, checks.go, and its row in a table,
//     policy.go;
//   - which Services share a Secret, who owns it, and so whether it may be written: ownership.go;
//   - what a Secret holds: contentOf, content.go; the value that it returns is created,
//     compared, patched and remembered;
//   - what is remembered of a Secret, never its key: facts.go, and who signed its leaf:
//     verification.go; what is kept of a Service: keep.go;
//   - what the status of a Service reports: status.go and condition.go, for people and, by
//     package api, for other processes; of the keys of its pods: podkeys.go;
//   - reasons and problems, for whoever reads them: reason.go.
//
// Packages below this one: issue has a CA sign, and checks what it signed; cfssl has CAs that sign;
// ratelimit limits how often; serviceindex finds the Services that requests of csr and podcert concern.
package signer
