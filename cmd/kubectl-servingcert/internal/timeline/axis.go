package timeline

import "time"

// tick is a moment on the axis with its label.
type tick struct {
	at    time.Time
	label string
}

const day = 24 * time.Hour

// steps are the distances of ticks shorter than a month, and monthly the others, in
// months.
var (
	steps = []time.Duration{
		time.Second, 5 * time.Second, 15 * time.Second, 30 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute,
		30 * time.Minute, time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, day, 2 * day, 7 * day, 14 * day,
	}
	monthly = []int{1, 3, 6, 12, 24, 60, 120, 600}
)

// ticks returns at most that many ticks from one moment to another: the most that round
// distances allow.
func ticks(from, until time.Time, most int) []tick {
	for _, step := range steps {
		if until.Sub(from)/step < time.Duration(most) {
			return evenly(from, until, step)
		}
	}
	for _, months := range monthly {
		if until.Sub(from)/(28*day*time.Duration(months)) < time.Duration(most) {
			return byMonths(from, until, months)
		}
	}
	return nil // more than 600 months a tick
}

func evenly(from, until time.Time, step time.Duration) []tick {
	var found []tick
	for at := from.Truncate(step); !at.After(until); at = at.Add(step) { // weeks begin on Monday
		if !at.Before(from) {
			found = append(found, tick{at, at.Format(layout(step))})
		}
	}
	return found
}

func layout(step time.Duration) string {
	switch {
	case step < time.Minute:
		return "15:04:05"
	case step < day:
		return "01-02 15:04"
	}
	return time.DateOnly
}

func byMonths(from, until time.Time, months int) []tick {
	layout := "2006-01"
	if months%12 == 0 {
		layout = "2006"
	}
	first := (from.Year()*12 + int(from.Month()) - 1) / months * months
	var found []tick
	for month := first; ; month += months {
		at := time.Date(month/12, time.Month(month%12+1), 1, 0, 0, 0, 0, time.UTC)
		if at.After(until) {
			return found
		}
		if !at.Before(from) {
			found = append(found, tick{at, at.Format(layout)})
		}
	}
}

// scale maps the axis to positions from 0 to a width.
type scale struct {
	from, until time.Time
	width       float64
}

// position returns where t is; it may lie outside.
func (s scale) position(t time.Time) float64 {
	return t.Sub(s.from).Seconds() / s.until.Sub(s.from).Seconds() * s.width
}

// span returns where a span is drawn; ok is false if it lies outside.
func (s scale) span(sp Span) (from, until float64, ok bool) {
	if !sp.Until.After(s.from) || !sp.From.Before(s.until) {
		return 0, 0, false
	}
	return max(0, s.position(sp.From)), min(s.width, s.position(sp.Until)), true
}

// has reports whether t is on the axis.
func (s scale) has(t time.Time) bool { return !t.Before(s.from) && !t.After(s.until) }
