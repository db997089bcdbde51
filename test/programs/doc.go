// Package programs runs programs of the table in pkg/mutate/programs with what their entries
// give them, and sees that they serve TLS with the certificate and take up a renewed one in
// the way that their entries say.
//
//	$ make programs                 # all of them; needs root on Debian, and the network the first time
//	$ make programs RUN=redis       # some of them
//
// A pod is given to the webhook's own decision, [mutate.Mutate]. What comes out of it is
// started as a kubelet would: with the arguments and variables of the container, and with the
// files of the injected volume in a directory that is changed by one rename. There is no
// container runtime: the programs run as an unprivileged user below a root directory that is
// made of Debian's packages, listen on loopback, and end with the test.
//
// run.txt lists the programs, for the page docs/programs.md.
//
// [mutate.Mutate]: https://pkg.go.dev/github.com/servingcert/servingcert/pkg/mutate#Mutate
package programs
