package ratelimit

// Priorities of a Secret that waits for its turn.
const (
	// PriorityOwn is that of servingcert's own Secrets after a change of the CA.
	PriorityOwn = 1
	// PriorityAwaited is that of a Secret that somebody may wait for: its Service was made or
	// changed, or the Secret was.
	PriorityAwaited = 0
	// PriorityMissing is that of a Secret that was missing when the process started, or began to
	// lead. Somebody waits for it, and has for a while: what happens now comes first, so that
	// what thousands of such Secrets cause is not put off until the last of them is done.
	PriorityMissing = -50
	// PriorityRenewal is that of a Secret that is looked at since its time has come or the CA
	// has changed. What it holds keeps working meanwhile. It equals the priority that
	// controller-runtime gives to what is there already when a process starts.
	PriorityRenewal = -100
)
