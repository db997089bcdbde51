// Command rotator distributes the CA bundle, verifies that pods serve their new certificates, and
// finds the pods that the webhook missed.
package main

import "github.com/servingcert/servingcert/cmd/rotator/app"

func main() { app.Main() }
