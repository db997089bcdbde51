// Package rotator carries a rotation through to the pods: who of them serves
// what, and what to do about it.
//
// # Missed pods
//
// A pod is injected while it is created, or never. One that was created before
// its namespace was labelled or its Service annotated, or while the webhook was
// away, runs without the Secret that it would get today, until it is replaced.
// Nothing here replaces it: it is found, counted by namespace in metric
// servingcert_missed_pods, and an event on its workload says what to do.
//
// The unit of work is a namespace. Its reconcile gathers from caches, decides in
// pure functions, and acts:
//
//	FactsOf(pod)                  // what is remembered of a pod (facts.go)
//	Judge(facts, place, choose)   // is it missed, and why or why not (missed.go)
//	group, decide                 // whom to tell of it, once (decide.go)
//
// Which Secret a pod would get is the webhook's decision, which comes in as a
// function value ([Choose]), so that the two cannot differ.
//
// # Who serves what
//
// A rotation is done when the pods serve the new certificate. The unit of work is
// a Secret: its Services name in condition Ready the leaf that it holds, and the
// pods that mount its key are dialled and compared with that.
//
//	certificate.follow(services, now)   // what is to be served, and since when (certificate.go)
//	doorOf(template, secret, services)  // where a pod is dialled (ports.go)
//	consumer.state(certificate, pace)   // what a pod is called, by its answers (consumers.go)
//	consumer.next(certificate, pace)    // when it is dialled again (schedule.go)
//	servingCondition(service, …)        // what its Service says of it (serving.go)
//
// decideConsumers (consumersdecide.go) puts them together; a prober dials. Which
// leaf is an older one of the Secret, and may be acted on, and which is not ours,
// is said in recognise.go. Nothing here reads a Secret.
//
// # Restarts
//
// What is stale and says so in its template is restarted (restart.go): once for a
// certificate, as kubectl rollout restart does.
//
// Pods are many: of each, what is held is who it is and a reference to what it
// has in common with the others of its template ([Template]).
package rotator
