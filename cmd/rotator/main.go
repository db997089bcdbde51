// Command rotator carries the CA bundle, and what follows from a rotation, to
// those who use it, and finds the pods that the webhook missed.
package main

import "github.com/servingcert/servingcert/cmd/rotator/app"

func main() { app.Main() }
