// Package nearest finds the word that was most likely meant by one that is unknown.
package nearest

import "strings"

// Of is the nearest of the known words; empty if none is near: a third of the letters may be
// wrong, or parts of "a_b" left out.
func Of(unknown string, known []string) string {
	unknown = strings.ToLower(unknown)
	best, least := "", (len(unknown)+1)/3+1
	for _, word := range known {
		d := Distance(unknown, strings.ToLower(word))
		if unknown != "" && (strings.HasPrefix(word, unknown+"_") || strings.HasSuffix(word, "_"+unknown)) {
			d = min(d, 1)
		}
		if d < least {
			best, least = word, d
		}
	}
	return best
}

// Text is what an error says of it after the unknown word: ", the nearest is ..." or nothing.
func Text(unknown string, known []string) string {
	if best := Of(unknown, known); best != "" {
		return ", the nearest is " + best
	}
	return ""
}

// Distance is how many letters must be inserted, left out or changed (Levenshtein).
func Distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0] // of the row above, one to the left
		row[0] = i + 1
		for j := range len(b) {
			change := before
			if a[i] != b[j] {
				change++
			}
			before = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
