package app

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/doctor"
)

// Colours do not change the text of a report, and text of a finding, such as a file name,
// cannot set colours.
func TestColouredReportHasSameText(t *testing.T) {
	report := doctor.Report{Errors: 1, Warnings: 1, Findings: []doctor.Finding{
		{ID: "SC101", Level: doctor.OK, Message: "fine"},
		{ID: "SC401", Level: doctor.Error, Object: "Service shop/web", Message: "wrong\x1b[32m", Fix: "mend", Link: "https://example.com/#sc401"},
		{ID: "SC402", Level: doctor.Warning, File: "a\x1b[32m.yaml", Line: 3, Message: "odd", Fix: "see", Link: "https://example.com/#sc402"},
	}}
	var uncoloured, coloured strings.Builder
	require.NoError(t, writeDoctor(streams{screen: screen{to: &uncoloured}}, report, "text", true))
	require.NoError(t, writeDoctor(streams{screen: screen{to: &coloured, colours: true}}, report, "text", true))
	assert.Contains(t, uncoloured.String(), "ok      SC101  fine\n")
	assert.Contains(t, uncoloured.String(), "error   SC401 Service shop/web\n        wrong\\u001b[32m\n")
	assert.Contains(t, coloured.String(), "\x1b[32mok\x1b[0m      SC101  fine\n")
	assert.Contains(t, coloured.String(), "\x1b[31merror\x1b[0m   SC401")
	assert.Contains(t, coloured.String(), "\x1b[33mwarning\x1b[0m SC402")
	assert.NotContains(t, coloured.String(), "a\x1b")
	assert.Equal(t, uncoloured.String(), regexp.MustCompile("\x1b\\[[0-9]+m").ReplaceAllString(coloured.String(), ""))
}
