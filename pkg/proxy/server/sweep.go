package server

import (
	"context"
	"time"
)

// elapsed returns the nanoseconds since start. Unlike those since 1970, they do not jump when the node's
// clock is set, which would end all connections.
func (s *Server) elapsed() int64 { return int64(s.cfg.Clock().Sub(s.start)) }

// sweepEvery is the interval at which idle connections are closed, and the precision of that timeout.
const (
	sweepEvery         = 5 * time.Second
	sweepWhileDraining = 50 * time.Millisecond
)

// sweep closes idle connections, and updates the coarse time.
func (s *Server) sweep(ctx context.Context) {
	every := sweepEvery
	if idle := s.cfg.Limits.Idle; idle > 0 {
		every = max(sweepWhileDraining, min(every, idle/4))
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.sweepOnce(false)
		}
	}
}

func (s *Server) sweepOnce(draining bool) {
	now := s.elapsed()
	s.now.Store(now)
	for _, c := range s.conns.all() {
		if s.cfg.Limits.Expired(time.Duration(now-c.moved.Load()), c.upstreamEnded.Load(), c.clientEnded.Load(), draining) {
			c.port.counters.expired.Add(1)
			c.kill(false)
		}
	}
}

// drain closes the connections that are not established, and waits for the others.
func (s *Server) drain() {
	for c := s.conns.abandon(); c != nil; c = s.conns.abandon() {
		c.kill(false)
	}
	s.log.info("stopping", "connections", s.conns.len())
	done := make(chan struct{})
	go func() {
		s.running.Wait()
		close(done)
	}()
	end := time.NewTimer(s.cfg.Limits.Drain)
	defer end.Stop()
	tick := time.NewTicker(sweepWhileDraining)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
			s.sweepOnce(true)
			continue
		case <-end.C:
		}
		break
	}
	s.log.warn("closing the connections that have not ended", "connections", s.conns.len())
	for _, c := range s.conns.all() {
		c.kill(true)
	}
	<-done
}
