// Command talk is a gRPC server with the usual services, or a server that echoes WebSocket messages. It
// has no TLS.
//
//	talk grpc|websocket HOST:PORT
package main

import (
	"context"
	"errors"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/gorilla/websocket"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"
)

func main() { log.Fatal(run(os.Args[1:])) }

func run(args []string) error {
	if len(args) != 2 {
		return errors.New("usage: talk grpc|websocket HOST:PORT")
	}
	listener, err := net.Listen("tcp", args[1])
	if err != nil {
		return err
	}
	if args[0] == "grpc" {
		server := grpc.NewServer()
		grpc_health_v1.RegisterHealthServer(server, health.NewServer())
		reflection.Register(server)
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		// A graceful shutdown: clients get a GOAWAY, and pending requests are completed.
		context.AfterFunc(ctx, server.GracefulStop)
		return server.Serve(listener)
	}
	server := &http.Server{Handler: http.HandlerFunc(echo), ReadHeaderTimeout: time.Minute}
	return server.Serve(listener)
}

// echo sends back what it receives until the client ends it.
func echo(w http.ResponseWriter, r *http.Request) {
	conn, err := (&websocket.Upgrader{}).Upgrade(w, r, nil)
	if err != nil {
		return // the client got the error
	}
	defer func() { _ = conn.Close() }() // closed by the client
	for {
		kind, message, err := conn.ReadMessage()
		if err != nil || conn.WriteMessage(kind, message) != nil {
			return
		}
	}
}
