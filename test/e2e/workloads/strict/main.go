// Command strict is a web server without TLS that rejects unknown flags, as most programs do:
//
//	strict KIND [--listen ADDRESS]
//
// KIND determines how it exits then, or why it always exits. Kind "lenient" ignores its arguments.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"time"
)

func main() {
	if len(os.Args) < 2 {
		log.Fatal("a kind is required")
	}
	switch kind, args := os.Args[1], os.Args[2:]; kind {
	case "flag": // as in package flag: the flag, the usage, and code 2
		if err := serve(args, flag.ExitOnError); err != nil {
			log.Fatal(err)
		}
	case "lenient":
		if err := serve(nil, flag.ContinueOnError); err != nil {
			log.Fatal(err)
		}
	case "mute": // it always exits, without a message
		os.Exit(1)
	case "database": // it always exits, for another reason
		time.Sleep(time.Second)
		log.Fatal("cannot reach database at db.example.com:5432: connection refused")
	default:
		log.Fatalf("%q: unknown kind", kind)
	}
}

// serve serves until the process ends. It only returns an error if the arguments are wrong and handling
// is flag.ContinueOnError.
func serve(args []string, handling flag.ErrorHandling) error {
	flags := flag.NewFlagSet("strict", handling)
	if handling == flag.ContinueOnError {
		flags.SetOutput(io.Discard)
	}
	listen := flags.String("listen", ":8080", "address to listen on")
	if err := flags.Parse(args); err != nil {
		return err
	}
	server := &http.Server{Addr: *listen, ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintln(w, "hello without TLS")
	})}
	log.Printf("listening on %s", *listen)
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		log.Fatal(err)
	}
	return nil
}
