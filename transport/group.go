package transport

import "strings"

// GroupMax bounds the schedulers of a group: each spare costs all others a link.
const GroupMax = 16

// SplitGroup takes apart what stands for a group where one address may stand: those of its members, with
// + between. Most groups are one address.
func SplitGroup(text string) []string {
	members := strings.Split(text, "+")
	if len(members) > 1 {
		for i := range members {
			members[i] = strings.TrimSpace(members[i])
		}
	}
	return members
}
