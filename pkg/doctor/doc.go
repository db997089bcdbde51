// Package doctor finds problems in an installation of servingcert and in the objects that
// use it: it takes [Facts] and returns findings. It is pure: callers read the cluster.
// [Analyze] examines manifests instead.
//
// Every finding belongs to a [Check], which has a stable id, a level, a fix and a link to
// the documentation. docs/checks.md is generated from the list of checks.
package doctor
