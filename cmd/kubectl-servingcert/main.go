// Command kubectl-servingcert is a plugin of kubectl: "kubectl servingcert".
package main

import "github.com/servingcert/servingcert/cmd/kubectl-servingcert/app"

func main() { app.Main() }
