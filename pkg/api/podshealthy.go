package api

// Reasons of condition ConditionPodsHealthy.
const (
	// PodsFailing: False; a container that was given something exits again and again, or its
	// pod does not become ready.
	PodsFailing = "PodsFailing"
	// PodsDeleted: False; an operator deletes pods again and again soon after it created them.
	PodsDeleted = "PodsDeleted"
)
