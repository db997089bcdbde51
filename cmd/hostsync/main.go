// Command hostsync keeps files on its host as good as the certificate in a directory, and has the
// programs that read them take them up.
package main

import "github.com/servingcert/servingcert/cmd/hostsync/app"

func main() { app.Main() }
