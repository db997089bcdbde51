package app

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/doctor"
)

// writeDoctor writes a report. If passed is true, text also lists the checks without findings.
func writeDoctor(std streams, r doctor.Report, format string, passed bool) error {
	for i := range r.Findings { // tenants wrote some of the text
		f := &r.Findings[i]
		f.Object, f.Message, f.Fix = api.Escape(f.Object), api.Escape(f.Message), api.Escape(f.Fix)
	}
	switch {
	case isData(format):
		return writeData(std.out, format, doctorData{headerOf("Report"), r})
	case format == "github":
		return writeGitHub(std.out, r)
	}
	return writeDoctorText(std.screen, r, passed)
}

// doctorData is a report as data.
type doctorData struct {
	header
	doctor.Report
}

// levelStyles are the styles of a finding's level.
var levelStyles = map[doctor.Level]style{doctor.OK: good, doctor.Info: plain, doctor.Warning: doubt, doctor.Error: bad}

func writeDoctorText(s screen, r doctor.Report, passed bool) error {
	// level is padded to 8 columns, coloured or not.
	level := func(l doctor.Level) string {
		return s.paint(string(l), levelStyles[l]) + strings.Repeat(" ", max(0, 8-len(l)))
	}
	var b strings.Builder
	for _, f := range r.Findings {
		if passed && f.Level == doctor.OK {
			_, _ = fmt.Fprintf(&b, "%s%s  %s\n", level(f.Level), f.ID, f.Message) // a Builder never fails
		}
	}
	for _, f := range r.AtLeast(doctor.Info) {
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		head := slices.DeleteFunc([]string{string(f.ID), f.Where(), f.Object}, func(s string) bool { return s == "" })
		text := fmt.Sprintf("%s\n        %s\n        fix: %s\n        %s\n", strings.Join(head, " "), f.Message, f.Fix, f.Link)
		b.WriteString(level(f.Level) + api.EscapeLines(text))
	}
	if b.Len() > 0 {
		b.WriteByte('\n')
	}
	_, _ = fmt.Fprintf(&b, "%s, %s, %s passed\n", api.Count(r.Errors, "error"), api.Count(r.Warnings, "warning"), api.Count(r.Passed, "check"))
	_, err := io.WriteString(s.to, b.String())
	return err
}

// writeGitHub writes workflow commands of GitHub Actions, which show findings beside the lines.
func writeGitHub(w io.Writer, r doctor.Report) error {
	text := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	property := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
	for _, f := range r.AtLeast(doctor.Info) {
		level := map[doctor.Level]string{doctor.Error: "error", doctor.Warning: "warning", doctor.Info: "notice"}[f.Level]
		_, err := fmt.Fprintf(w, "::%s file=%s,line=%d,title=%s::%s\n", level, property.Replace(f.File), max(f.Line, 1),
			property.Replace(string(f.ID)+" "+f.Name), text.Replace(fmt.Sprintf("%s: %s\n%s\n%s", f.Object, f.Message, f.Fix, f.Link)))
		if err != nil {
			return err
		}
	}
	return nil
}
