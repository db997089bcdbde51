// Command webhook answers the AdmissionReviews of pods that are created in opted-in namespaces. Every
// replica is active, and none writes objects.
package main

import "github.com/servingcert/servingcert/cmd/webhook/app"

func main() { app.Main() }
