// Command termshot turns what a program wrote to a terminal into a picture: it reads text
// with colours (SGR, ECMA-48 8.3.117) from standard input and writes SVG. The first
// argument is the command that the picture shows above it. Lines are wrapped as a terminal
// of -columns does.
//
//	script -qec 'kubectl servingcert status -A' /dev/null | go run ./hack/termshot 'kubectl servingcert status -A' > status.svg
package main

import (
	"encoding/xml"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Sizes in pixels. A character of a monospaced font is 0.6 of its height wide.
const (
	fontSize   = 13
	charWidth  = 7.83
	lineHeight = 18
	margin     = 14
)

const (
	background = "#1e1e1e"
	foreground = "#dddddd"
)

// fills are the colours of SGR that kubectl servingcert uses.
var fills = map[string]string{"31": "#f48771", "32": "#89d185", "33": "#e5c07b"}

var sgr = regexp.MustCompile("\x1b\\[([0-9]*)m")

func main() {
	columns := flag.Int("columns", 0, "width of the terminal; 0: as wide as the text")
	flag.Parse()
	text, err := io.ReadAll(os.Stdin)
	if err == nil {
		_, err = io.WriteString(os.Stdout, draw(strings.Join(flag.Args(), " "), wrap(string(text), *columns)))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "termshot:", err)
		os.Exit(1)
	}
}

// draw returns the picture of a command and of what it wrote.
func draw(command, text string) string {
	lines := strings.Split(strings.TrimRight(strings.ReplaceAll(text, "\r\n", "\n"), "\n"), "\n")
	if command != "" {
		lines = append([]string{"$ " + command}, lines...)
	}
	columns := 0
	for _, line := range lines {
		columns = max(columns, utf8.RuneCountInString(sgr.ReplaceAllString(line, "")))
	}
	width, height := float64(columns)*charWidth+2*margin, len(lines)*lineHeight+2*margin
	var b strings.Builder
	put := func(format string, args ...any) { _, _ = fmt.Fprintf(&b, format, args...) } // a Builder does not fail
	put(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %d" width="%.0f" height="%d" font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="%d">`+"\n",
		width, height, width, height, fontSize)
	put(`<rect width="100%%" height="100%%" rx="6" fill=%q/>`+"\n", background)
	fill := foreground
	for i, line := range lines {
		put(`<text x="%d" y="%d" xml:space="preserve">`, margin, margin+lineHeight*i+fontSize)
		for len(line) > 0 {
			at := sgr.FindStringSubmatchIndex(line)
			if at == nil {
				at = []int{len(line), len(line), len(line), len(line)}
			}
			if piece := line[:at[0]]; piece != "" {
				put(`<tspan fill=%q textLength="%.1f">%s</tspan>`, fill, float64(utf8.RuneCountInString(piece))*charWidth, escape(piece))
			}
			if at[0] < len(line) {
				if fill = fills[line[at[2]:at[3]]]; fill == "" {
					fill = foreground
				}
			}
			line = line[at[1]:]
		}
		put("</text>\n")
	}
	put("</svg>\n")
	return b.String()
}

// wrap breaks lines that are longer than a number of columns; 0: none.
func wrap(text string, columns int) string {
	if columns <= 0 {
		return text
	}
	var b strings.Builder
	at := 0
	for len(text) > 0 {
		if colour := sgr.FindStringIndex(text); len(colour) == 2 && colour[0] == 0 {
			b.WriteString(text[:colour[1]])
			text = text[colour[1]:]
			continue
		}
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case r == '\n':
			at = 0
		case r != '\r' && at == columns:
			b.WriteByte('\n')
			at = 1
		case r != '\r':
			at++
		}
		b.WriteString(text[:size])
		text = text[size:]
	}
	return b.String()
}

func escape(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a Builder does not fail
	return b.String()
}
