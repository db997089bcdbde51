package judge

// Short returns as much of a hash as people are shown.
func Short(hash string) string {
	if len(hash) > 12 {
		return hash[:12]
	}
	return hash
}

// Dash returns what a table shows for s: "-" if it is empty.
func Dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
