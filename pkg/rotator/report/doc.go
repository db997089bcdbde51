// Package report says which workloads are stale, and why those are not restarted
// that ask for it, in full: the data of ConfigMap servingcert-serving-status
// ([api.ServingStatus]). Condition Serving names a few workloads for people, and
// events come and go; whoever has to know all of them reads this.
//
// A leader that has just begun knows nothing yet. It goes on with what the one
// before it reported about a Secret until its pods have been dialled ([Decide]).
// Where nothing was reported before, it reports nothing before it knows all: a
// report without workloads says that none is stale; without a report, that is not
// known yet.
//
// The package is pure; its controller is in package report/controller.
package report
