// Command strict is a web server without TLS that refuses flags which it does not know,
// as most programs do:
//
//	strict KIND [--listen ADDRESS]
//
// KIND is how it exits then, or why it exits whatever it is given. Kind "lenient" is the
// exception, which ignores its arguments.
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
		log.Fatal("which kind?")
	}
	switch kind, args := os.Args[1], os.Args[2:]; kind {
	case "flag": // as package flag does: the flag, the usage, and code 2
		if err := serve(args, flag.ExitOnError); err != nil {
			log.Fatal(err)
		}
	case "lenient":
		if err := serve(nil, flag.ContinueOnError); err != nil {
			log.Fatal(err)
		}
	case "mute": // it never runs, and does not say why
		os.Exit(1)
	case "database": // something else is missing
		time.Sleep(time.Second)
		log.Fatal("cannot reach database at db.example.com:5432: connection refused")
	default:
		log.Fatalf("%q is no kind", kind)
	}
}

// serve serves until the process is ended. It returns an error only if the arguments are
// wrong and handling says so.
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
	log.Printf("listens on %s", *listen)
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		log.Fatal(err)
	}
	return nil
}
