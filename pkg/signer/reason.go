package signer

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/servingcert/servingcert/pkg/api"
)

// Reason says in one word why a certificate is issued, or why it is not. It is
// the value of a condition's reason, of an event's and of a metric's label.
type Reason string

// Why a certificate is issued.
const (
	reasonFirst        Reason = "FirstIssue"
	reasonMissing      Reason = "SecretMissing"
	reasonEmpty        Reason = "SecretEmpty"
	reasonKeyMissing   Reason = "KeyMissing"
	reasonGarbage      Reason = "Garbage"
	reasonMismatch     Reason = "KeyMismatch"
	reasonOtherCA      Reason = "SignedByOtherCA"
	reasonWrongUsage   Reason = "WrongUsage"
	reasonChainChanged Reason = "ChainChanged"
	reasonNames        Reason = "NamesChanged"
	reasonAlgorithm    Reason = "KeyAlgorithmChanged"
	reasonDuration     Reason = "DurationChanged"
	reasonRequested    Reason = "RenewRequested"
	reasonDue          Reason = "RenewalDue"
	reasonExpired      Reason = "Expired"
	reasonNotYetValid  Reason = "NotYetValid"
	reasonSucceeded    Reason = "CASucceeded"
)

// Reasons of the Ready condition beside those of a CA that cannot sign, and of what it signed
// (issue.Reason).
const (
	reasonIssued       Reason = "Issued"                  // True
	reasonRetained     Reason = api.ReasonRetained        // True: no longer requested, and kept
	reasonPodKeys      Reason = api.ReasonPodKeys         // True: the Service's pods make their keys
	reasonInvalid      Reason = "InvalidAnnotation"       // False: what is requested is not allowed
	reasonTooLarge     Reason = api.ReasonTooLarge        // False: more would have to be remembered of the Service than is allowed
	reasonWaiting      Reason = api.ReasonWaitingForTrust // False: some names, or all, that not all clients accept yet
	reasonConflict     Reason = "SecretConflict"          // False: the Secret is not managed by this signer
	reasonNotOptedIn   Reason = api.ReasonNotOptedIn      // False: the namespace lacks the label, and nothing shows that the Service had a certificate while it had it
	reasonTerminating  Reason = "SecretTerminating"       // False: the Secret was deleted, and finalizers hold it
	ReasonSignFailed   Reason = "SigningFailed"           // False
	ReasonWriteRefused Reason = "WriteRefused"            // False: the API server does not take the Secret
	ReasonWriteFailed  Reason = "WriteFailed"             // False: the API server was not reached
	ReasonRateLimited  Reason = "RateLimited"             // False: too many certificates were issued in a short time
	reasonUnavailable  Reason = "CAUnavailable"           // False: a CA that does not say why
	ReasonClockSkew    Reason = "ClockSkew"               // False: this clock and the API server's differ
	reasonPending      Reason = "CAPending"               // never written: the CA is being read
)

// ReasonOf returns the reason that an error gives by a method Reason() string, or
// otherwise if it gives none.
func ReasonOf(err error, otherwise Reason) Reason {
	var reasoned interface{ Reason() string }
	if errors.As(err, &reasoned) {
		return Reason(reasoned.Reason())
	}
	return otherwise
}

// CARetry is how long a Secret or a request waits for a CA that cannot sign before it is looked at
// again without a change: correcting the clock triggers no event.
const CARetry = 30 * time.Second

// Problem is why all is not well with a Secret, for the Services that have a part
// in it. Zero: all is well.
type Problem struct {
	Reason  Reason
	Message string
	// Temporary: nothing can be done now. A certificate that is good goes on, and
	// what its Services say of it stays.
	Temporary bool
}

// conflict is the problem of a Secret that is not ours.
func conflict(s Situation, why string) Problem {
	return Problem{
		Reason:  reasonConflict,
		Message: fmt.Sprintf("Secret %q exists and is not managed by this signer: %s. It is left unchanged: delete it, or ask for another name", s.Key.Name, why),
	}
}

// blocked is the problem under a CA that cannot sign.
func blocked(err error) Problem {
	return Problem{Reason: ReasonOf(err, reasonUnavailable), Message: err.Error(), Temporary: true}
}

// Pending reports whether the CA has not been looked at yet.
func Pending(err error) bool { return err != nil && ReasonOf(err, "") == reasonPending }

// notOptedIn is the problem of a Secret that nobody with the opt-in asks for, and that does not
// show that somebody did.
func notOptedIn(s Situation) Problem {
	return Problem{Reason: reasonNotOptedIn, Message: s.labelText("does not have") + ", and the Secret does not hold a key and a certificate of this CA with names of the Service: nothing is issued until the namespace has the label"}
}

// maxNamesShown bounds how many names a message repeats.
const maxNamesShown = 4

// quoted returns the first of the names in order, and how many more there are.
func quoted(names []string) string {
	names = slices.Sorted(slices.Values(names))
	if n := len(names) - maxNamesShown; n > 0 {
		return fmt.Sprintf("%q and %d more", names[:maxNamesShown], n)
	}
	return fmt.Sprintf("%q", names)
}

// A Secret that was deleted and has finalizers stays until they are removed. It can be
// read and mounted, but a new certificate in it would go with it, so that it is not
// written any more. Nothing else would report that its certificate expires.

// terminatingGrace is how long a Secret may be terminating before its Services say so: a
// finalizer of the garbage collector's or of a controller that works goes in that time.
const terminatingGrace = 10 * time.Second

// terminating is the problem of a Secret that is being deleted.
func terminating(f *SecretFacts) Problem {
	more := ""
	if f.moreFinalizers > 0 {
		more = fmt.Sprintf(" and %d more", f.moreFinalizers)
	}
	return Problem{
		Reason: reasonTerminating,
		Message: fmt.Sprintf("it was deleted at %s and still exists because of its finalizers %q%s; its certificate is not renewed. Have the controllers that added them finish, or remove them; if the Secret is still asked for, it is then created again",
			f.DeletionTimestamp.UTC().Format(time.RFC3339), f.Finalizers, more),
	}
}
