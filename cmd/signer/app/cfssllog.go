package app

import (
	cfssllog "github.com/cloudflare/cfssl/log"
	"github.com/go-logr/logr"
)

// bridgeLogs sends cfssl's log, which is global and not synchronised, to ours
// before anything uses it. It has a line for every certificate, and so have we:
// only its warnings count.
func bridgeLogs(logger logr.Logger) {
	cfssllog.Level = cfssllog.LevelWarning
	cfssllog.SetLogger(logBridge{logger})
}

// logBridge implements cfssl's SyslogWriter.
type logBridge struct{ logger logr.Logger }

func (b logBridge) Debug(s string)   { b.logger.V(1).Info(s) }
func (b logBridge) Info(s string)    { b.logger.V(1).Info(s) }
func (b logBridge) Warning(s string) { b.logger.Info(s) }
func (b logBridge) Err(s string)     { b.logger.Error(nil, s) }
func (b logBridge) Crit(s string)    { b.logger.Error(nil, s) }
func (b logBridge) Emerg(s string)   { b.logger.Error(nil, s) }
