// Package spell finds the word that a mistyped one was meant to be.
package spell

// Nearest gives the name that a mistyped word was probably meant to be: the one
// with the fewest slips, at most one for three letters of the word; empty when
// none is near.
func Nearest(word string, names []string) string {
	best, least := "", max(1, len(word)/3)+1
	if len(word) > 64 {
		return ""
	}
	for _, name := range names {
		if d := distance(word, name); d < least {
			best, least = name, d
		}
	}
	return best
}

// distance is how many letters have to be put in, taken out, replaced or swapped
// with the next one to make b of a.
func distance(a, b string) int {
	var before []int // the row above the last one
	last := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			change := last[j]
			if a[i] != b[j] {
				change++
			}
			row[j+1] = min(change, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
