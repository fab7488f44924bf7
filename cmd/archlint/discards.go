package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"
)

// discard is a call that may be refused (its link or queue is full or closed, its message too
// large), and whose refusal nothing looks at. What it should have carried is lost in silence.
type discard struct {
	file string // relative to the root
	line int
	in   string // the function that calls, as in Type.Method
	call string // what it calls, as in Link.Send; "channel": a send that is given up where it is full
}

// senders begin the names of functions that pass something on and return an error where they
// could not. (Closing, waiting and reading may fail, too, but lose no message.)
func senders() []string {
	return []string{"send", "submit", "report", "payload", "reply", "push", "post", "publish", "flush", "offer", "later", "ping", "read",
		"put", "delete", "write", "tell", "answer", "deliver", "notify", "order", "enqueue", "queue", "add", "pass", "announce", "cancel", "emit"}
}

// takers return how much they took, or whether they did, instead of an error.
func takers() []string {
	return []string{"Push", "PushAll", "TryPush", "Submit", "SubmitAll", "feed.tell"}
}

// discards finds the calls of this module's functions whose refusal is thrown away: by a
// statement of its own, go, defer, a blank result, or an if that only leaves. Packages
// whose names end in test are tests that others share.
func discards(all []typed) []discard {
	var out []discard
	for _, t := range all {
		if strings.HasSuffix(t.folder, "test") {
			continue
		}
		for _, f := range t.files {
			for _, d := range f.Decls {
				out = append(out, t.discardsIn(d)...)
			}
		}
	}
	return out
}

func (t typed) discardsIn(d ast.Decl) (out []discard) {
	in := "a variable"
	if f, ok := d.(*ast.FuncDecl); ok {
		in = declared(f)
	}
	add := func(at token.Pos, call string) {
		p := t.fset.Position(at)
		out = append(out, discard{t.folder + "/" + filepath.Base(p.Filename), p.Line, in, call})
	}
	ast.Inspect(d, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectStmt); ok && lossy(t.info, s) {
			add(s.Pos(), "channel")
		}
		if s, ok := n.(*ast.IfStmt); ok && quiet(s) {
			for _, call := range append(calls(s.Init), calls(s.Cond)...) {
				if name, ok := refuses(t.info, call); ok {
					add(call.Pos(), name)
				}
			}
		}
		if call := thrown(n); call != nil {
			if name, ok := refuses(t.info, call); ok {
				add(call.Pos(), name)
			}
		}
		return true
	})
	return out
}

// thrown is the call of which a statement throws away the last result, or all of them.
func thrown(n ast.Node) *ast.CallExpr {
	var e ast.Expr
	switch n := n.(type) {
	case *ast.ExprStmt:
		e = n.X
	case *ast.GoStmt:
		e = n.Call
	case *ast.DeferStmt:
		e = n.Call
	case *ast.AssignStmt:
		if last, ok := n.Lhs[len(n.Lhs)-1].(*ast.Ident); ok && last.Name == "_" && len(n.Rhs) == 1 {
			e = n.Rhs[0]
		}
	}
	call, _ := ast.Unparen(e).(*ast.CallExpr)
	return call
}

// quiet reports whether an if does nothing but leave: then the results in its condition are lost.
func quiet(s *ast.IfStmt) bool {
	if a, ok := s.Init.(*ast.AssignStmt); ok && a.Tok == token.ASSIGN {
		return false // what is kept outside is looked at there
	}
	if s.Else != nil || len(s.Body.List) > 1 {
		return false
	}
	if len(s.Body.List) == 0 {
		return true
	}
	switch b := s.Body.List[0].(type) {
	case *ast.ReturnStmt:
		return len(b.Results) == 0
	case *ast.BranchStmt:
		return true
	}
	return false
}

func calls(n ast.Node) (out []*ast.CallExpr) {
	if n == nil {
		return nil
	}
	ast.Inspect(n, func(n ast.Node) bool {
		if c, ok := n.(*ast.CallExpr); ok {
			out = append(out, c)
		}
		_, inner := n.(*ast.FuncLit)
		return !inner
	})
	return out
}

// lossy reports whether a select sends, and does nothing where the channel is full. Tokens
// (struct{}) wake a goroutine: one that is in the channel already does the same.
func lossy(info *types.Info, s *ast.SelectStmt) bool {
	var send *ast.SendStmt
	silent := false
	for _, c := range s.Body.List {
		clause := c.(*ast.CommClause)
		silent = silent || clause.Comm == nil && len(clause.Body) == 0
		if x, ok := clause.Comm.(*ast.SendStmt); ok {
			send = x
		}
	}
	if send == nil || !silent {
		return false
	}
	c, ok := info.TypeOf(send.Chan).Underlying().(*types.Chan)
	if !ok {
		return false
	}
	e, ok := c.Elem().Underlying().(*types.Struct)
	return !ok || e.NumFields() > 0
}

// refuses reports whether a call's last result says that it was refused, and what is called.
func refuses(info *types.Info, call *ast.CallExpr) (name string, ok bool) {
	id := called(call)
	if id == nil {
		return "", false
	}
	o := info.Uses[id]
	if o == nil || o.Pkg() == nil || o.Pkg().Path() != module && !strings.HasPrefix(o.Pkg().Path(), module+"/") {
		return "", false
	}
	sig, ok := o.Type().Underlying().(*types.Signature)
	if !ok || sig.Results().Len() == 0 {
		return "", false
	}
	name = id.Name
	if r := sig.Recv(); r != nil {
		name = typeName(r.Type()) + "." + name
	}
	last := sig.Results().At(sig.Results().Len() - 1).Type()
	if types.Identical(last, types.Universe.Lookup("error").Type()) {
		return name, begins(id.Name, senders())
	}
	b, basic := last.Underlying().(*types.Basic)
	if !basic || b.Info()&(types.IsBoolean|types.IsInteger) == 0 {
		return name, false
	}
	for _, t := range takers() {
		if t == id.Name || t == name {
			return name, true
		}
	}
	return name, false
}

// called is the name of what is called.
func called(call *ast.CallExpr) *ast.Ident {
	fun := ast.Unparen(call.Fun)
	switch x := fun.(type) { // of a generic function
	case *ast.IndexExpr:
		fun = x.X
	case *ast.IndexListExpr:
		fun = x.X
	}
	switch x := fun.(type) {
	case *ast.Ident:
		return x
	case *ast.SelectorExpr:
		return x.Sel
	}
	return nil
}

// begins reports whether the first word of a name is one of those.
func begins(name string, words []string) bool {
	for _, w := range words {
		if len(name) < len(w) || !strings.EqualFold(name[:len(w)], w) {
			continue
		}
		if next, _ := utf8.DecodeRuneInString(name[len(w):]); len(name) == len(w) || unicode.IsUpper(next) {
			return true
		}
	}
	return false
}

// declared is a function's name, with its receiver's.
func declared(f *ast.FuncDecl) string {
	if f.Recv == nil || len(f.Recv.List) == 0 {
		return f.Name.Name
	}
	e := f.Recv.List[0].Type
	for {
		switch x := e.(type) {
		case *ast.StarExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.IndexListExpr:
			e = x.X
		case *ast.Ident:
			return x.Name + "." + f.Name.Name
		default:
			return f.Name.Name
		}
	}
}

func typeName(t types.Type) string {
	if p, ok := t.(*types.Pointer); ok {
		t = p.Elem()
	}
	if n, ok := t.(*types.Named); ok {
		return n.Obj().Name()
	}
	return "interface"
}

// stay is a refusal that may be thrown away, with the reason.
type stay struct {
	file, in, call string
	times          int // 0: once
	why            string
}

// checkDiscards compares what was found with what may stay: what is not listed is a finding,
// and so is what is listed and not there any more.
func checkDiscards(found []discard, table []stay) (out []string) {
	type key struct{ file, in, call string }
	at := map[key][]discard{}
	for _, d := range found {
		k := key{d.file, d.in, d.call}
		at[k] = append(at[k], d)
	}
	listed := map[key]bool{}
	for _, s := range table {
		k := key{s.file, s.in, s.call}
		if want := max(s.times, 1); len(at[k]) != want || listed[k] {
			out = append(out, fmt.Sprintf("cmd/archlint/stays.go: %s, %s: %s: listed %d times, found %d times: correct the list", s.file, s.in, s.call, want, len(at[k])))
		}
		if len(s.why) < 20 {
			out = append(out, fmt.Sprintf("cmd/archlint/stays.go: %s, %s: %s: no reason", s.file, s.in, s.call))
		}
		listed[k] = true
	}
	for _, d := range found {
		if !listed[key{d.file, d.in, d.call}] {
			out = append(out, fmt.Sprintf("%s:%d: %s throws away that %s was refused: wait with a bound, or answer with a reason, and count it; if it may be lost, say why in cmd/archlint/stays.go",
				d.file, d.line, d.in, d.call))
		}
	}
	return out
}
