// Package backend is the process that owns devices: it loads models, tells
// the scheduler what it has, takes batch orders, and keeps a data link to each
// frontend.
//
//	scheduler link --Batch--> executor of the device --Done--> scheduler link
//	Member --> data link to the frontend --READ, Output--
//
// # Rules
//
//  1. It obeys the highest epoch that it has promised (fencing): orders of an
//     earlier scheduler are ignored; their requests were answered when that
//     scheduler was lost.
//  2. The scheduler's ids hold for an epoch: with a new admission the members
//     and the table from model ids are made anew.
//  3. Models come and go while others run: with the scheduler's orders (Keep), and with the
//     repository where that is watched (stock). A model that cannot be loaded is left out with a
//     message, and tried again; a pool without models is an error only where none can come.
//  4. When the scheduler is gone, running batches end, their outputs go to the
//     frontends, and the link is dialled again and again.
package backend
