package signer

import (
	"fmt"
	"time"

	"github.com/servingcert/servingcert/pkg/api"
)

// A Secret that was deleted and has finalizers stays until they are removed. It can be
// read and mounted, but a new certificate in it would go with it, so that it is not
// written any more. Nothing else would report that its certificate expires.

// terminatingGrace is how long a Secret may be terminating before its Services say so: a
// finalizer of the garbage collector's or of a controller that works goes in that time.
const terminatingGrace = 10 * time.Second

// maxFinalizer is the most characters of a finalizer that are remembered: those of a
// qualified name.
const maxFinalizer = 253 + 1 + 63

// rememberFinalizers remembers what holds a Secret that is being deleted, the first
// maxNamesShown.
func (f *SecretFacts) rememberFinalizers(finalizers []string) {
	if f.DeletionTimestamp == nil {
		return
	}
	shown := min(len(finalizers), maxNamesShown)
	for _, name := range finalizers[:shown] {
		f.Finalizers = append(f.Finalizers, api.Shorten(name, maxFinalizer))
	}
	f.moreFinalizers = len(finalizers) - shown
}

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
