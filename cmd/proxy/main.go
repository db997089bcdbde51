// Command proxy terminates TLS for a program in the same pod that speaks plaintext, and connects to
// Services with TLS for it.
package main

import "github.com/servingcert/servingcert/cmd/proxy/app"

func main() { app.Main() }
