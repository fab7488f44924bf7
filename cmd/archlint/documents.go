package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const decisionsFolder = "docs/decisions"

var (
	// pageName is the name of a decision's page.
	pageName = regexp.MustCompile(`^(\d{4})-[a-z0-9-]+\.md$`)
	// indexRow is a row of the index: number, page, title, date.
	indexRow = regexp.MustCompile(`(?m)^\| \[(\d{4})\]\(([^)]+)\) \| (.+?) \| (\d{4}-\d{2}-\d{2}) \| .+ \|$`)
	// link is an inline link or picture, or a link's definition on a line of its own.
	link = regexp.MustCompile(`\]\(([^()\s]+)(?:\s+"[^"]*")?\)|^\s{0,3}\[[^\]]+\]:\s+(\S+)`)
	// elsewhere is a link that leads out of the tree.
	elsewhere = regexp.MustCompile(`^(?:[a-z][a-z0-9+.-]*:|//)`)
	codeSpan  = regexp.MustCompile("`[^`]*`")
)

// checkDocuments holds the rules of the documents below root.
func checkDocuments(root string) []string {
	var out []string
	if info, err := os.Stat(filepath.Join(root, "ARCHITECTURE.md")); err == nil && info.Size() > architectureMax {
		out = append(out, fmt.Sprintf("ARCHITECTURE.md: %d bytes, at most %d: reasons belong into %s", info.Size(), architectureMax, decisionsFolder))
	}
	out = append(out, checkDecisions(filepath.Join(root, decisionsFolder))...)
	return append(out, checkLinks(root)...)
}

// checkDecisions demands that the index and the pages agree: each page has one
// row, with its number, title and date, and each row has its page.
func checkDecisions(folder string) []string {
	index, err := os.ReadFile(filepath.Join(folder, "README.md"))
	if err != nil {
		return []string{"the index of the decisions: " + err.Error()}
	}
	rows := indexRow.FindAllStringSubmatch(string(index), -1)
	var out, indexed []string
	if len(rows) == 0 {
		out = append(out, decisionsFolder+"/README.md: no row of an index: want | [NNNN](page) | title | date | sentence |")
	}
	for _, row := range rows {
		out = append(out, checkRow(folder, row[1], row[2], row[3], row[4])...)
		if slices.Contains(indexed, row[2]) {
			out = append(out, fmt.Sprintf("%s/README.md names %s twice", decisionsFolder, row[2]))
		}
		indexed = append(indexed, row[2])
	}
	return append(out, checkPages(folder, indexed)...)
}

// checkRow holds a row of the index against its page.
func checkRow(folder, number, name, title, date string) []string {
	text, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		return []string{fmt.Sprintf("%s/README.md names %s, which is not there", decisionsFolder, name)}
	}
	var out []string
	if !strings.HasPrefix(name, number+"-") {
		out = append(out, fmt.Sprintf("%s/README.md calls %s %s", decisionsFolder, name, number))
	}
	if head := fmt.Sprintf("# %s: %s\n\nDate: %s\n", number, title, date); !strings.HasPrefix(string(text), head) {
		out = append(out, fmt.Sprintf("%s/%s does not begin with %q, as the index has it", decisionsFolder, name, head))
	}
	return out
}

// checkPages demands that each page is in the index, under a number of its own.
func checkPages(folder string, indexed []string) []string {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return []string{err.Error()}
	}
	var out []string
	holders := map[string]string{} // by number
	for _, e := range entries {
		name := e.Name()
		if e.IsDir() || name == "README.md" || filepath.Ext(name) != ".md" {
			continue
		}
		m := pageName.FindStringSubmatch(name)
		if m == nil {
			out = append(out, fmt.Sprintf("%s/%s: want NNNN-short-name.md", decisionsFolder, name))
			continue
		}
		if holder, ok := holders[m[1]]; ok {
			out = append(out, fmt.Sprintf("%s/%s has the number of %s", decisionsFolder, name, holder))
		}
		holders[m[1]] = name
		if !slices.Contains(indexed, name) {
			out = append(out, fmt.Sprintf("%s/%s is not in the index", decisionsFolder, name))
		}
	}
	return out
}

// checkLinks demands that the relative links of all documents lead to files or
// folders. Code is not looked at: it may contain anything.
func checkLinks(root string) []string {
	var out []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && skipped(d.Name()):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".md":
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		shown, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		out = append(out, checkLinksOf(filepath.ToSlash(shown), filepath.Dir(path), string(text))...)
		return nil
	})
	if err != nil {
		out = append(out, err.Error())
	}
	return out
}

func checkLinksOf(shown, folder, text string) []string {
	var out []string
	fenced := false
	for i, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
			continue
		}
		if fenced {
			continue
		}
		for _, m := range link.FindAllStringSubmatch(codeSpan.ReplaceAllString(line, "code"), -1) {
			target := m[1] + m[2]
			file, _, _ := strings.Cut(target, "#")
			if file == "" || elsewhere.MatchString(target) {
				continue
			}
			if _, err := os.Stat(filepath.Join(folder, filepath.FromSlash(file))); err != nil {
				out = append(out, fmt.Sprintf("%s:%d: the link %s leads nowhere", shown, i+1, target))
			}
		}
	}
	return out
}
