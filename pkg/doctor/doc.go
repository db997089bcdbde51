// Package doctor judges an installation of servingcert, and what people ask of it: facts
// go in, findings come out. It is pure. What a cluster holds is gathered by its callers;
// what manifests hold is judged by [Analyze].
//
// Every finding belongs to a [Check], which has a stable id, a level, what to do about
// it, and a place in the documentation. [Checks] are all of them; docs/checks.md is made
// from that list.
package doctor
