package plot

import (
	"cmp"
	"image/color"
	"slices"
	"strings"

	"gonum.org/v1/plot/vg"
)

// colouredMax is how many series of a picture have a colour of their own.
const colouredMax = 8

// The colours of Okabe and Ito (Color Universal Design, 2008). The order is
// that of use; yellow is last, for it is weak on white.
const (
	blue = iota
	vermilion
	green
	orange
	purple
	sky
	black
	yellow
)

func palette(i int) color.NRGBA {
	table := [colouredMax]color.NRGBA{
		blue:      {0x00, 0x72, 0xB2, 0xFF},
		vermilion: {0xD5, 0x5E, 0x00, 0xFF},
		green:     {0x00, 0x9E, 0x73, 0xFF},
		orange:    {0xE6, 0x9F, 0x00, 0xFF},
		purple:    {0xCC, 0x79, 0xA7, 0xFF},
		sky:       {0x56, 0xB4, 0xE9, 0xFF},
		black:     {0x00, 0x00, 0x00, 0xFF},
		yellow:    {0xF0, 0xE4, 0x42, 0xFF},
	}
	return table[i]
}

func white() color.NRGBA     { return color.NRGBA{0xFF, 0xFF, 0xFF, 0xFF} }
func ink() color.NRGBA       { return color.NRGBA{0x22, 0x22, 0x22, 0xFF} }
func faintInk() color.NRGBA  { return color.NRGBA{0x66, 0x66, 0x66, 0xFF} }
func gridLine() color.NRGBA  { return color.NRGBA{0xE4, 0xE4, 0xE4, 0xFF} }
func otherGrey() color.NRGBA { return color.NRGBA{0xBD, 0xBD, 0xBD, 0xFF} }
func dropRed() color.NRGBA   { return color.NRGBA{0xCC, 0x00, 0x00, 0xFF} }

// faint is c with so much of its strength, in 255ths.
func faint(c color.NRGBA, alpha uint8) color.NRGBA {
	c.A = alpha
	return c
}

// onTop is the text colour that can be read on c.
func onTop(c color.NRGBA) color.NRGBA {
	if 299*int(c.R)+587*int(c.G)+114*int(c.B) > 120_000 {
		return ink()
	}
	return white()
}

// system is the palette index of a system that the project compares, told by
// the start of the name: "Nexus 8FE" is Nexus.
func system(name string) (int, bool) {
	table := []struct {
		prefix string
		colour int
	}{
		{"symphony", blue}, {"deferred", blue}, {"eager", vermilion}, {"timeout", orange},
		{"clockwork", green}, {"nexus", purple}, {"shepherd", sky},
	}
	for _, s := range table {
		if strings.HasPrefix(strings.ToLower(name), s.prefix) {
			return s.colour, true
		}
	}
	return 0, false
}

// look is how a series is told from the others.
type look struct {
	color color.NRGBA // of lines
	patch color.NRGBA // of areas, bars and boxes
	dash  []vg.Length
	shape int  // of its markers
	other bool // one of the grey ones
}

// looks gives each name its look. weight decides who of many has a colour.
func looks(names []string, weight []float64) []look {
	out := make([]look, len(names))
	for i := range out {
		out[i] = look{color: otherGrey(), patch: otherGrey(), other: true}
	}
	coloured := chosen(names, weight)
	free := freeColours(names, coloured)
	var used [colouredMax]int
	for _, i := range coloured {
		c, ok := system(names[i])
		if !ok {
			c, free = free[0], append(free[1:], free[0])
		}
		out[i] = look{color: palette(c), patch: tint(palette(c), used[c]), dash: dashes(used[c]), shape: c + used[c]}
		used[c]++
	}
	return out
}

// chosen lists, in the given order, the series that have a colour: all, or
// first the systems and then those with the greatest weight.
func chosen(names []string, weight []float64) []int {
	order := make([]int, len(names))
	for i := range order {
		order[i] = i
	}
	if len(names) <= colouredMax {
		return order
	}
	slices.SortStableFunc(order, func(a, b int) int {
		_, sa := system(names[a])
		_, sb := system(names[b])
		if sa != sb {
			if sa {
				return -1
			}
			return 1
		}
		return cmp.Compare(weight[b], weight[a])
	})
	order = order[:colouredMax]
	slices.Sort(order)
	return order
}

// freeColours lists the colours for series that are no system: all, or, beside
// systems, first those that no system has and then those of absent systems.
func freeColours(names []string, coloured []int) []int {
	var taken [colouredMax]bool
	some := false
	for _, i := range coloured {
		if c, ok := system(names[i]); ok {
			taken[c], some = true, true
		}
	}
	order := []int{blue, vermilion, green, orange, purple, sky, black, yellow}
	if some {
		order = []int{black, yellow, sky, purple, orange, green, vermilion, blue}
	}
	free := slices.DeleteFunc(order, func(c int) bool { return taken[c] })
	if len(free) == 0 {
		return []int{black}
	}
	return free
}

// tint is the n-th series' shade of one colour: full, then lighter, then darker.
func tint(c color.NRGBA, n int) color.NRGBA {
	table := []struct {
		toward uint8
		share  int // in tenths
	}{{0, 0}, {0xFF, 5}, {0, 4}, {0xFF, 7}, {0, 6}}
	t := table[n%len(table)]
	mix := func(v uint8) uint8 { return uint8((int(v)*(10-t.share) + int(t.toward)*t.share) / 10) }
	return color.NRGBA{mix(c.R), mix(c.G), mix(c.B), c.A}
}

// dashes tells the n-th series of one colour from the first.
func dashes(n int) []vg.Length {
	table := [][]vg.Length{nil, {6, 2.5}, {2, 2}, {7, 2, 2, 2}, {10, 4}}
	return table[n%len(table)]
}
