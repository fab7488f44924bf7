package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/symphony-serving/symphony/cmd/symphony/version"
)

// said is what the command line prints of itself for these arguments.
func said(t *testing.T, args ...string) string {
	t.Helper()
	type ended int
	var out bytes.Buffer
	parser := newParser(kong.Writers(&out, &out), kong.Exit(func(status int) { panic(ended(status)) }))
	func() { // the help would go on to parse: it ends here
		defer func() {
			if r := recover(); r != nil && r != any(ended(0)) {
				panic(r)
			}
		}()
		if _, err := parser.Parse(args); err != nil {
			t.Fatalf("%v: %v", args, err)
		}
	}()
	return strings.Join(strings.Fields(out.String()), " ") // where lines break is not the question
}

func TestVersionFlag(t *testing.T) {
	if got := said(t, "--version"); got != version.Text() || !strings.Contains(got, "wire protocol") {
		t.Errorf("--version: %q, want %q", got, version.Text())
	}
}

// Placeholders do not look like defaults, and the helps say what one must know before.
func TestHelps(t *testing.T) {
	for command, wants := range map[string][]string{
		"bench":           {"Measure a running server (load), or what this machine makes of Symphony's parts."},
		"bench load":      {"Exit status 1 if interrupted.", "- is standard output", "shed dropped under overload", "generator_late never sent"},
		"bench http":      {"--only=KIND", "Exit status 1 if interrupted.", "- is standard output", "rounds times rows times span"},
		"bench scheduler": {"--disturb=SHARE", "Exit status 1 if interrupted.", "- is standard output", "Drawn of --scaling"},
		"bench net":       {"Exit status 1 if interrupted."},
		"bench draws":     {"Exit status 1 if interrupted.", "(default build/draws)", "--only=INDEX,... These"},
		"bench peers":     {"Exit status 1 if interrupted.", "--symphony=FILE", "Ctrl-C ends all servers"},
		"bench paper":     {"Exit status 1 if interrupted."},
		"plan apply":      {"Wait until the roll-out has ended, or has failed.", "--file=FILE", "of sub-clusters that name none"},
		"model add":       {"Wait until it is served, or has failed. Ctrl-C ends the wait, not the order."},
		"partition":       {"NAME/VERSION for a plan that is to be applied", "--weight=REQUESTS/S", "--gpus=N"},
		"scheduler":       {"--standby=tcp:HOST:PORT", "step-down ADDRESS", "as --scheduler A+B+C"},
		"controller":      {"default tcp:127.0.0.1:9000", "default 127.0.0.1:8002", "An etcd that is away at the start is waited for"},
	} {
		got := said(t, append(strings.Fields(command), "--help")...)
		for _, want := range wants {
			if !strings.Contains(got, want) {
				t.Errorf("%s --help lacks %q:\n%s", command, want, got)
			}
		}
	}
}

// A wrong flag's error says where the right ones are listed.
func TestWrongFlagsHint(t *testing.T) {
	parser, err := kong.New(&commands{}, kong.Name("symphony"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = parser.Parse([]string{"bench", "load", "--bogus"})
	if err = withHint(err); err == nil || !strings.HasSuffix(err.Error(), "see `symphony bench load --help`") {
		t.Errorf("error %v", err)
	}
}

// Kong adds the dots of a list to its placeholder.
func TestDotsOnce(t *testing.T) {
	walk(newParser().Model.Node, func(n *kong.Node) {
		for _, f := range n.Flags {
			if p := f.FormatPlaceHolder(); strings.Count(p, "...") > 1 {
				t.Errorf("%s --%s=%s", n.FullPath(), f.Name, p)
			}
		}
	})
}

// No command has a flag twice, its own and those of all commands together: kong does
// not refuse that, and which of the two a user gets is chance.
func TestFlagsOnce(t *testing.T) {
	parser := newParser()
	walk(parser.Model.Node, func(n *kong.Node) {
		seen := map[string]bool{}
		for _, group := range n.AllFlags(false) {
			for _, f := range group {
				for _, name := range append([]string{f.Name}, f.Aliases...) {
					if seen[name] {
						t.Errorf("%s has --%s twice", n.FullPath(), name)
					}
					seen[name] = true
				}
			}
		}
	})
}

func walk(n *kong.Node, visit func(*kong.Node)) {
	visit(n)
	for _, c := range n.Children {
		walk(c, visit)
	}
}
