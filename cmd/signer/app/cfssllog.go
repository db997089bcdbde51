package app

import (
	cfssllog "github.com/cloudflare/cfssl/log"
	"github.com/go-logr/logr"
)

// bridgeLogs redirects cfssl's log, which is global and not synchronised, before anything uses it.
// cfssl logs a line for every certificate, as the signer does: only its warnings are logged.
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
