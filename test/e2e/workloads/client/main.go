// Command client is the client of the end-to-end scenes, in a pod with only the CA bundle. It
// makes handshakes with its targets all the time, and fetches URLs on request. Requests come
// over plain HTTP, through the API server's proxy:
//
//	PUT /targets   a JSON list of handshake.Target: the new targets
//	GET /report    the results, a handshake.Report
//	POST /shake    a handshake.Target: one handshake or exchange; the answer is 200, or 502 with an error
//	POST /fetch    a handshake.Request: one GET over HTTPS; the answer is a handshake.Response
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/servingcert/servingcert/test/e2e/handshake"
)

func main() {
	listen := flag.String("listen", ":8080", "address for requests")
	bundle := flag.String("bundle", os.Getenv("TLS_CA_FILE"), "file with the certificates to trust")
	once := flag.Bool("once", false, "read the bundle only once")
	interval := flag.Duration("interval", time.Second, "pause between two handshakes with a server")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	err := run(ctx, *listen, *bundle, *once, *interval)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, listen, bundle string, once bool, interval time.Duration) error {
	client, err := handshake.New(bundle, once, interval, time.Now())
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /report", func(w http.ResponseWriter, _ *http.Request) { answer(w, client.Report()) })
	mux.HandleFunc("PUT /targets", func(w http.ResponseWriter, r *http.Request) {
		if targets, ok := read[[]handshake.Target](w, r); ok {
			client.Follow(ctx, targets)
		}
	})
	mux.HandleFunc("POST /shake", func(w http.ResponseWriter, r *http.Request) {
		if target, ok := read[handshake.Target](w, r); ok {
			if _, err := client.Shake(r.Context(), target); err != nil {
				http.Error(w, err.Error(), http.StatusBadGateway)
			}
		}
	})
	mux.HandleFunc("POST /fetch", func(w http.ResponseWriter, r *http.Request) {
		if request, ok := read[handshake.Request](w, r); ok {
			answer(w, client.Fetch(r.Context(), request))
		}
	})
	server := &http.Server{Addr: listen, Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() {
		<-ctx.Done()
		_ = server.Close()
	}()
	log.Printf("listening on %s", listen)
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// read decodes the request. If it is invalid, read responds with an error.
func read[T any](w http.ResponseWriter, r *http.Request) (value T, ok bool) {
	if err := json.NewDecoder(r.Body).Decode(&value); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return value, false
	}
	return value, true
}

func answer(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(value); err != nil {
		log.Printf("answer: %v", err)
	}
}
