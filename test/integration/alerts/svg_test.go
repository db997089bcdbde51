//go:build alerts

package alerts

import (
	"bytes"
	"fmt"
	"html"
	"math"
	"slices"
	"time"
)

// The picture of a dashboard: two panels in a row, drawn from the results of its queries. It is no Grafana's.
const (
	panelWidth, panelHeight = 560, 250
	plotTop, plotHeight     = 40, 120
	plotLeft, plotWidth     = 60, 480
	legends                 = 4 // lines that are named below a panel
)

var colours = []string{"#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b", "#e377c2", "#7f7f7f"}

// svg draws those panels of a dashboard that have queries over the time from start to end.
func svg(title string, panels []panel, start, end time.Time) []byte {
	panels = slices.DeleteFunc(panels, func(p panel) bool { return len(p.Targets) == 0 })
	var out bytes.Buffer
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="11">`+"\n",
		2*panelWidth, 30+panelHeight*((len(panels)+1)/2))
	fmt.Fprintf(&out, `<rect width="100%%" height="100%%" fill="white"/><text x="10" y="20" font-size="15" font-weight="bold">%s</text>`+"\n", html.EscapeString(title))
	for i, p := range panels {
		fmt.Fprintf(&out, `<g transform="translate(%d %d)">`, i%2*panelWidth, 30+i/2*panelHeight)
		p.draw(&out, float64(start.Unix()), float64(end.Unix()))
		fmt.Fprintln(&out, "</g>")
	}
	fmt.Fprintln(&out, "</svg>")
	return out.Bytes()
}

func (p panel) draw(out *bytes.Buffer, start, end float64) {
	fmt.Fprintf(out, `<rect x="5" y="5" width="%d" height="%d" fill="none" stroke="#ccc"/><text x="12" y="24" font-weight="bold">%s</text>`+"\n",
		panelWidth-10, panelHeight-10, html.EscapeString(p.Title))
	top := 0.0
	for _, l := range p.lines {
		for _, point := range l.points {
			top = math.Max(top, point.Value)
		}
	}
	if top == 0 {
		top = 1
	}
	fmt.Fprintf(out, `<text x="%d" y="%d" text-anchor="end">%s</text><text x="%d" y="%d" text-anchor="end">0</text>`, plotLeft-5, plotTop+5, p.number(top), plotLeft-5, plotTop+plotHeight)
	fmt.Fprintf(out, `<path d="M%d %dV%dH%d" fill="none" stroke="#999"/>`+"\n", plotLeft, plotTop, plotTop+plotHeight, plotLeft+plotWidth)
	for i, l := range p.lines {
		colour := colours[i%len(colours)]
		fmt.Fprintf(out, `<path fill="none" stroke="%s" stroke-width="1.5" d="`, colour)
		last := math.Inf(-1)
		for _, point := range l.points {
			move := "L"
			if point.Time-last > 4 { // a gap
				move = "M"
			}
			last = point.Time
			fmt.Fprintf(out, "%s%.0f %.0f", move, plotLeft+plotWidth*(point.Time-start)/(end-start), plotTop+plotHeight*(1-math.Max(0, point.Value)/top))
		}
		fmt.Fprint(out, `"/>`)
		if i < legends {
			fmt.Fprintf(out, `<text x="%d" y="%d" fill="%s">%s</text>`+"\n", 12+i%2*270, plotTop+plotHeight+20+i/2*16, colour, html.EscapeString(l.legend))
		}
	}
	if more := len(p.lines) - legends; more > 0 {
		fmt.Fprintf(out, `<text x="12" y="%d" fill="#666">and %d more</text>`, plotTop+plotHeight+52, more)
	}
}

// number is a value on the axis.
func (p panel) number(v float64) string {
	if p.FieldConfig.Defaults.Unit == "s" && v > 2*24*3600 {
		return fmt.Sprintf("%.0f d", v/24/3600)
	}
	if p.FieldConfig.Defaults.Unit == "s" {
		return fmt.Sprintf("%.3g s", v)
	}
	return fmt.Sprintf("%.3g", v)
}
