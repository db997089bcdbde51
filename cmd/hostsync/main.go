// Command hostsync copies the certificate in a directory to files on its host, and makes the programs
// that read these files load it.
package main

import "github.com/servingcert/servingcert/cmd/hostsync/app"

func main() { app.Main() }
