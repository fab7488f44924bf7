// Package nice runs what can wait beside what cannot: on threads of a low priority.
package nice

// Most is the lowest priority: what is left over of the processors.
const Most = 19
