// Package ca decides about the certificate authority that signs every serving
// certificate: it makes the CA on the first start, says what clients must trust,
// replaces the CA before it ends without a moment in which a client rejects a
// server, and never replaces a lost one unless a person asks for it.
//
// The package is pure: it reads no clock, asks no API server and writes nothing.
// Package controller below it gathers a [Situation], and does what the [Decision]
// says.
//
// # From a Situation to a write
//
// A [State] is all that the CA Secret holds, as [ParseState] reads it and
// [EncodeState] writes it. [Decide] returns what signs now, what the status
// ConfigMap must hold, which [Step] is next and why, and when to decide anew.
// [Decision.Apply] returns the state after the step and the data of the Secret that
// holds it. It is apart from Decide because it draws keys.
//
// A new rule of the succession is a function in succession.go and a place in the
// list in succeed; a new reason to make a generation is a branch in plan.go.
//
// # Objects
//
// Secret servingcert-ca holds the CA, its private key included. Only the signer
// reads and writes it. ConfigMap servingcert-ca-status holds what is public, the
// bundle above all: pkg/api formats and parses it (api.CAStatus), and the requests
// that people make with its annotations (api.RotateRequest). The Secret is always
// written first: a crash between the two writes leaves a CA that the next reconcile
// publishes, whereas the other order would leave a status without a CA, which is a
// loss.
//
// # Succession
//
// A generation is made (Prepare), waits until the trust status says that every
// target holds its root (Wait), signs (Promote), and the roots before it leave
// when nobody needs them (Retire). Each step is one write, decided from what is
// stored then: a crash anywhere resumes. Only adjacent generations are
// cross-signed; the chain that is served goes from the leaf down that ladder and
// never holds a root. An imported or a remote CA is a [Candidate] and goes the same
// road.
//
// # The high-water mark
//
// A root must stay in the clients' bundles until the last leaf under it has
// expired, at least. When that is, is stored with the generation before leaves are
// signed up to then, in steps of a day, so that it costs one write a day and not
// one per leaf: no leaf ends later than pki.Authority.SignUntil.
package ca
