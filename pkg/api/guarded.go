package api

// Reasons of condition ConditionGuarded, which the rotator writes: whether the pods were seen to refuse clients that no
// list names, at each of the [TCPTargets]. The first of these that applies is used.
const (
	GuardedAdmits   = "AdmitsStrangers"  // False: a port admitted a client without a certificate, with a forged one, or without TLS
	GuardedNoProxy  = "NotProxied"       // False: no proxy is in front of a port, so that the list has no effect there
	GuardedNoList   = "NoList"           // False: the proxy of a pod has no list for a port, so that it admits all
	GuardedWatch    = "Watch"            // False: a list has ClientsWatch
	GuardedNotSeen  = "NotSeen"          // Unknown: no pod is ready, pods are not dialled, or no answer shows whether a client was admitted
	GuardedPending  = "Pending"          // Unknown: not each pod has been dialled
	GuardedRefusing = "RefusesStrangers" // True
)
