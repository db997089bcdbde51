package ratelimit

// Priorities of a Secret in the queue.
const (
	// PriorityOwn is for servingcert's own Secrets after a change of the CA.
	PriorityOwn = 1
	// PriorityAwaited is for a Secret that someone may wait for: it or its Service was created or
	// changed.
	PriorityAwaited = 0
	// PriorityMissing is for a Secret that was missing when the process started or began to
	// lead. There may be thousands of these, so current changes come first.
	PriorityMissing = -50
	// PriorityRenewal is for a Secret that is due, or concerned by a change of the CA. Its
	// certificate keeps working meanwhile. It equals the priority that controller-runtime
	// gives to objects that exist when a process starts.
	PriorityRenewal = -100
)
