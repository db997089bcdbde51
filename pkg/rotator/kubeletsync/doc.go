// Package kubeletsync decides which pods have their kubelet woken, so that a rotation is
// served within a second.
//
// A changed Secret or ConfigMap does not make a kubelet update the files of the pods
// that mount it: it looks at a pod every 60 to 90 s, and whenever the pod itself
// changes. So the rotator changes the pods: it writes what their files should hold
// into annotation servingcert.dev/leaf ([api.Mounted]).
//
// The unit of a decision is a pod ([Situation], [Decide], [Decision]). It is woken
// if something of ours that it mounts has changed ([Content]), unless
//
//   - the change is older than a kubelet needs without us,
//   - the pod was created after it, and so was started with it,
//   - the pod is seen to serve it, or its annotation names it already,
//   - the pod does not run: one that waits for its first mount is not sped up.
//
// All of that is read from objects, but for what pods were seen to serve, so a new
// leader goes on where the one before was.
//
// The package is pure; its controller is in package wake/controller.
package kubeletsync
