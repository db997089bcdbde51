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
//   - the content of a Secret: contentOf, content.go; its result is created, compared and patched;
//   - the cached facts of a Secret, without its key: facts.go; the CA that signed its leaf:
//     verification.go; the cached part of a Service: keep.go;
//   - the status of a Service: status.go and condition.go, for people and, by package api, for
//     other processes; with keys of its pods: podkeys.go;
//   - reasons, and the problems that conditions report: reason.go.
//
// Packages below this one: issue has a CA sign, and checks the certificate; cfssl and certmanager
// have the CAs, and remote the code that remote ones share; ratelimit limits how often. Packages
// csr, podcert and kubelet answer requests for keys of other parties; requests and serviceindex
// find the Services for them.
package signer
