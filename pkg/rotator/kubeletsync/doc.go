// Package kubeletsync decides for which pods the kubelet is woken, so that a rotation takes effect
// within a second.
//
// A changed Secret or ConfigMap does not make a kubelet update the files of the pods that mount it:
// it syncs a pod every 60 to 90 s, and whenever the pod itself changes. So the rotator changes the
// pod: it writes the expected content of its files into annotation servingcert.dev/leaf
// ([api.Mounted]).
//
// The unit of a decision is a pod ([Situation], [Decide], [Decision]). Its kubelet is woken if an
// object of ours that it mounts has changed ([Content]), unless
//
//   - a kubelet has already synced since the change,
//   - the pod was created after the change,
//   - the pod is seen to serve the new content, or its annotation names it,
//   - the pod does not run: the first mount of a new pod is not sped up.
//
// All of that is read from objects, except what pods were seen to serve, so a new leader continues
// where the previous one was.
//
// The package is pure; its controller is in package kubeletsync/controller.
package kubeletsync
