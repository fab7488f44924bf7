// Package plot draws the project's pictures, each as SVG and as PNG.
//
//	Lines, CDF, Bars, Stack, Timeline --+--> chart (axes, layers, legend) --> SVG
//	Grid of several of them ------------+                                --> PNG
//
// A picture is a plain value: fill in its fields, hand it to Write. Nothing is
// drawn before all of it has been checked; an error names the series at fault.
//
// # Rules
//
//  1. The same picture gives the same bytes, on the same kind of machine: no
//     date, no map order, no chance.
//  2. A system has one colour in all pictures (palette.go), told by the start
//     of the series' name: Symphony or deferred, eager, timeout, Clockwork,
//     Nexus, Shepherd. Two series of one system differ by dash and marker.
//  3. The colours are those of Okabe and Ito, which people who see fewer
//     colours tell apart. At most eight series have one; of more, the eight
//     with the highest mean do, and the others are grey.
//  4. No text is smaller than 9 pt, but for numbers within boxes and above
//     narrow bars, which shrink to 6 pt and then stay away.
//
// # Units
//
// Lengths are printer's points within the package, inches in Size. Values have
// the unit that the axis label states. Timeline takes instants (mono.Time) and
// shows milliseconds.
//
// # Rejected
//
// gonum's plot.Plot above its own canvases: its legend lies within the axes,
// its log axis labels only whole decades, and panels of one column do not get
// the same left edge when a legend stands beside one of them. Axes are few
// lines; fonts, SVG and raster output, which are many, are gonum's.
//
// Fonts embedded in the SVG: 500 kB a picture. The text names Liberation Sans
// and, where it is missing, Arial and Helvetica, which have the same widths.
package plot
