package api

// Reasons of condition ConditionPodsHealthy.
const (
	// PodsFailing: False; an injected container exits repeatedly, or its pod does not become
	// ready.
	PodsFailing = "PodsFailing"
	// PodsDeleted: False; an operator repeatedly deletes pods soon after it created them.
	PodsDeleted = "PodsDeleted"
)
