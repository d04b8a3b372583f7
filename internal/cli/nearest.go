package cli

// nearest gives the name that a mistyped word was probably meant to be: the one
// with the fewest letters to change, at most a third of the word's; empty when
// none is near.
func nearest(word string, names []string) string {
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

// distance is how many letters have to be put in, taken out or replaced to make b
// of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		corner := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := corner
			if a[i] != b[j] {
				change++
			}
			corner = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
