// Package ca decides about the certificate authority that signs every serving
// certificate: it creates the CA on the first start, determines what clients must
// trust, replaces the CA before it expires without a moment in which a client rejects
// a server, and replaces a lost CA only if a person requests it.
//
// The package is pure: it reads no clock, calls no API server and writes nothing.
// Package controller below it gathers a [Situation] and carries out the [Decision].
//
// # From a Situation to a write
//
// A [State] is the content of the CA Secret: [ParseState] reads it, [EncodeState]
// writes it. [Decide] returns the authority that signs now, the content of the status
// ConfigMap, the next [Step] and its reason, and when to decide again.
// [Decision.Apply] returns the state after the step and the Secret's new data. It is
// separate from Decide because it generates keys.
//
// A new rule of the succession is a function in succession.go and an entry in the
// list in succeed; a new reason to create a generation is a branch in plan.go.
//
// # Objects
//
// Secret servingcert-ca holds the CA, its private key included. Only the signer
// reads and writes it. ConfigMap servingcert-ca-status holds the public part, above
// all the bundle: pkg/api formats and parses it (api.CAStatus), and the requests that
// people make with its annotations (api.RotateRequest). The Secret is always written
// first: after a crash between the two writes the next reconcile publishes the CA. In
// the other order a crash would leave a status without a CA, which counts as a loss.
//
// # Succession
//
// A generation is created (Prepare), waits until the trust status reports that every
// target holds its root (Wait), and signs (Promote); older roots leave the bundle when
// no client needs them (Retire). Each step is one write, decided from what is stored
// at that time: a crash at any point resumes. Only adjacent generations are
// cross-signed; the served chain follows that ladder from the leaf and never holds a
// root. An imported or a remote CA is a [Candidate] and goes through the same steps.
//
// # The high-water mark
//
// A root must stay in the clients' bundles at least until the last leaf under it has
// expired. That time is stored with the generation before leaves are signed up to it,
// in steps of a day, so that it costs one write a day and not one per leaf: no leaf
// ends later than pki.Authority.SignUntil.
package ca
