// Package backend is the process that owns devices: it loads models, tells
// its schedulers what it has, takes batch orders of one of them, and keeps a data link to each
// frontend.
//
//	link to the scheduler that is obeyed --Batch--> executor of the device --Done--> that link
//	links to all of its group <--Stock, Service, Keep-- what is here, and what it shall have
//	Member --> data link to the frontend --READ, Output--
//
// # Rules
//
//  1. It obeys one scheduler: that of the highest reign that it has promised (fencing, reigns). A
//     scheduler that stands alone is obeyed as it is admitted; of a group nobody is before he asks.
//     Orders of others are ignored: what devices shall have, too.
//  2. When another one is obeyed, batches that have not begun are given up without a word, unless
//     the change is planned. Those that run end, their outputs go to the frontends, and their
//     reports to whoever is obeyed then; it was told of them before.
//  3. A scheduler's ids hold for its life: with another one its table of model ids and its roster
//     of frontends are made anew. A batch keeps the roster of who ordered it.
//  4. Each scheduler of the group is told all that is here, as it changes, and what the one that is
//     obeyed orders: it can lead at once. None waits for another.
//  5. Data links are the frontends': they outlive schedulers, and end when none that counts names
//     them any more (members).
//  6. Models come and go while others run: with the scheduler's orders (Keep), and with the
//     repository where that is watched (stock). A model that cannot be loaded is left out with a
//     message, and tried again; a pool without models is an error only where none can come.
//  7. When a scheduler is gone, running batches end, their outputs go to the
//     frontends, and the link is dialled again and again.
package backend
