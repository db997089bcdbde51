package timeline

import (
	"encoding/xml"
	"fmt"
	"slices"
	"strings"
)

// Sizes of the SVG, in its units, which are pixels unless it is scaled.
const (
	svgWidth   = 960
	svgNames   = 200 // of the names, left of the axis
	svgRight   = 24
	svgTop     = 74 // above the first lane
	svgLane    = 30
	svgBar     = 16 // height of a span in its lane
	svgLegend  = 22 // height of a line of the legend
	svgNameMax = 28 // characters
)

// colour is how a kind is drawn in SVG. The colours are those of Okabe and Ito, which
// people who see few colours tell apart, and paler ones.
type colour struct{ fill, meaning string }

var colours = map[SpanKind]colour{
	Prepared: {"#f0e442", signs[Prepared].meaning},
	Trusted:  {"#e69f00", signs[Trusted].meaning},
	Signs:    {"#009e73", signs[Signs].meaning},
	MaySign:  {"#bfe6da", signs[MaySign].meaning},
	Used:     {"#56b4e9", signs[Used].meaning},
	Kept:     {"#cccccc", signs[Kept].meaning},
	Valid:    {"#009e73", signs[Valid].meaning},
	Renewal:  {"#e69f00", signs[Renewal].meaning},
}

const (
	svgMark = "#0072b2"
	svgNow  = "#d55e00"
)

// drawing is an SVG in the making.
type drawing struct {
	strings.Builder
	Timeline
	scale scale
}

// SVG returns the timeline as an SVG document, without scripts or references.
func (t Timeline) SVG() string {
	d := drawing{Timeline: t, scale: scale{t.From, t.Until, svgWidth - svgNames - svgRight}}
	legend := d.legend()
	bottom := svgTop + svgLane*len(t.Lanes)
	height := bottom + 16 + svgLegend*len(legend) + 8
	d.put(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" font-family="system-ui, sans-serif" font-size="13">`,
		svgWidth, height, svgWidth, height)
	d.put(`<title>%s</title>`, escapeXML(t.title()))
	d.put(`<rect width="%d" height="%d" fill="#ffffff"/>`, svgWidth, height)
	d.put(`<text x="12" y="24" font-weight="bold">%s</text>`, escapeXML(t.title()))
	d.axis(bottom)
	for i, l := range t.Lanes {
		d.lane(l, svgTop+svgLane*i)
	}
	for i, line := range legend {
		d.put(`<g transform="translate(12 %d)">%s</g>`, bottom+16+svgLegend*i, line)
	}
	d.put(`</svg>`)
	return d.String()
}

// title says what is drawn.
func (t Timeline) title() string {
	return fmt.Sprintf("servingcert, %s to %s", clock(t.From), clock(t.Until))
}

func (d *drawing) put(format string, args ...any) {
	_, _ = fmt.Fprintf(d, format+"\n", args...) // a Builder does not fail
}

func escapeXML(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a Builder does not fail
	return b.String()
}

func (d *drawing) axis(bottom int) {
	free := 0.0
	for _, tick := range ticks(d.From, d.Until, int(d.scale.width)/100) {
		x := svgNames + d.scale.position(tick.at)
		d.put(`<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="#dddddd"/>`, x, svgTop-10, x, bottom)
		if x < free || x > svgWidth-40 {
			continue
		}
		d.put(`<text x="%.1f" y="%d" text-anchor="middle" fill="#555555" font-size="12">%s</text>`, x, svgTop-16, tick.label)
		free = x + float64(8*len(tick.label)) + 8
	}
	d.put(`<line x1="%d" y1="%d" x2="%d" y2="%d" stroke="#888888"/>`, svgNames, svgTop-10, svgWidth-svgRight, svgTop-10)
	if d.scale.has(d.Now) {
		x := svgNames + d.scale.position(d.Now)
		d.put(`<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="%s" stroke-width="1.5" stroke-dasharray="4 3"><title>now, %s</title></line>`,
			x, svgTop-10, x, bottom, svgNow, clock(d.Now))
	}
}

func (d *drawing) lane(l Lane, top int) {
	name := []rune(l.Name)
	if len(name) > svgNameMax {
		name = append(name[:svgNameMax-1], '…')
	}
	d.put(`<g><title>%s</title><text x="12" y="%d">%s</text></g>`, escapeXML(l.Name+"\n"+l.About), top+svgBar-3, escapeXML(string(name)))
	for _, s := range l.Spans {
		from, until, ok := d.scale.span(s)
		if !ok {
			continue
		}
		d.put(`<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s"><title>%s: %s to %s</title></rect>`,
			svgNames+from, top, max(1.5, until-from), svgBar, colours[s.Kind].fill, escapeXML(colours[s.Kind].meaning), clock(s.From), clock(s.Until))
	}
	for _, m := range l.Marks {
		if !m.Kind.drawn() || !d.scale.has(m.At) {
			continue
		}
		d.put(`<g transform="translate(%.1f %d)">%s<title>%s: %s</title></g>`, svgNames+d.scale.position(m.At), top+svgBar/2, diamond(m.Kind), words[m.Kind], clock(m.At))
	}
}

// diamond is a mark around the origin: filled for what is served.
func diamond(kind MarkKind) string {
	fill := "#ffffff"
	if kind == WasServed {
		fill = svgMark
	}
	return fmt.Sprintf(`<path d="M0 -6L6 0L0 6L-6 0Z" fill=%q stroke=%q stroke-width="1.5"/>`, fill, svgMark)
}

// legend returns the lines of what is drawn.
func (d *drawing) legend() []string {
	var items []string
	var said []string
	item := func(shape, meaning string) {
		if !slices.Contains(said, meaning) {
			said = append(said, meaning)
			items = append(items, shape+fmt.Sprintf(`<text x="20" y="11">%s</text>`, escapeXML(meaning)))
		}
	}
	for _, kind := range order {
		if d.shows(kind) {
			item(fmt.Sprintf(`<rect width="14" height="12" fill=%q/>`, colours[kind].fill), colours[kind].meaning)
		}
	}
	for _, kind := range []MarkKind{WasStored, WasServed} {
		if d.marks(kind) {
			item(`<g transform="translate(7 6)">`+diamond(kind)+`</g>`, markSigns[kind].meaning)
		}
	}
	if d.scale.has(d.Now) {
		item(fmt.Sprintf(`<line x1="7" y1="-2" x2="7" y2="14" stroke=%q stroke-width="1.5" stroke-dasharray="4 3"/>`, svgNow), "now, "+clock(d.Now))
	}
	const perLine = 3
	var lines []string
	for i, shape := range items {
		if i%perLine == 0 {
			lines = append(lines, "")
		}
		lines[len(lines)-1] += fmt.Sprintf(`<g transform="translate(%d 0)">%s</g>`, i%perLine*(svgWidth-svgRight)/perLine, shape)
	}
	return lines
}
