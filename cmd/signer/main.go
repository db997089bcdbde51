// Command signer issues serving certificates into Secrets, with a CA that it manages.
package main

import "github.com/servingcert/servingcert/cmd/signer/app"

func main() { app.Main() }
