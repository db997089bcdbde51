// Command signer issues serving certificates into Secrets, under a CA that it
// keeps.
package main

import "github.com/servingcert/servingcert/cmd/signer/app"

func main() { app.Main() }
