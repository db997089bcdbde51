// Package month is what Command mutants is tested on.
package month

// What a condition is made of may have a name, and so may a number.
type (
	flag bool
	sets uint8
)

// Rest is how many days of a month are left after a day, or -1 if the month has no such day.
func Rest(day, days int) int {
	if day < 1 || day > days {
		return -1
	}
	return days - day
}

// Leap reports whether a year has 366 days.
func Leap(year int) bool {
	every := flag(year%4 == 0)
	switch {
	case bool(every) && year%100 != 0:
		return true
	case year%400 == 0:
		return true
	}
	return false
}

// Sum adds the numbers, and half of the last once more.
func Sum(numbers ...int) (sum int) {
	for _, n := range numbers {
		sum += n
	}
	if !(len(numbers) == 0) {
		sum += numbers[len(numbers)-1] / 2
	}
	return sum
}

// Sets is how many sets of the numbers there are, without the empty one.
func Sets(numbers ...int) sets { return 1<<len(numbers) - 1 }

// Name is not tested.
func Name(month int, long bool) string {
	if long {
		return "month " + string(rune('0'+month))
	}
	return ""
}
