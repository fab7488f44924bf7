package api

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"

	"github.com/symphony-serving/symphony/transport/nearest"
)

// checked is a body that can say what is wrong with it.
type checked interface{ Check() error }

// readBody reads a call's body into v, and checks it. An empty body is none where one is
// needed.
func readBody(r *http.Request, v checked, needed bool) error {
	most := BodyMax
	if _, whole := v.(*PlanSpec); whole {
		most = PlanBodyMax
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, int64(most)+1))
	switch {
	case err != nil:
		return &Error{Kind: KindInvalid, Msg: "the body cannot be read: " + err.Error()}
	case len(body) > most:
		return &Error{Kind: KindTooLarge, Msg: fmt.Sprintf("the body has more than %d bytes", most)}
	case len(bytes.TrimSpace(body)) == 0 && needed:
		return &Error{Kind: KindInvalid, Msg: "the body is empty: send JSON with " + strings.Join(fields(reflect.TypeOf(v).Elem()), ", ")}
	case len(bytes.TrimSpace(body)) == 0:
		return v.Check()
	}
	if err := Decode(body, v); err != nil {
		return err
	}
	return v.Check()
}

// Decode reads JSON strictly: unknown fields are refused with the nearest known one, and what
// follows the document is, too.
func Decode(body []byte, v any) error {
	var tree any
	if err := json.Unmarshal(body, &tree); err != nil {
		return &Error{Kind: KindInvalid, Msg: "the body is no JSON: " + err.Error()}
	}
	if _, ok := tree.(map[string]any); !ok {
		return &Error{Kind: KindInvalid, Msg: "the body is no JSON object"}
	}
	if err := known(tree, reflect.TypeOf(v), ""); err != nil {
		return err
	}
	err := json.Unmarshal(body, v)
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return Invalid(wrong.Field, "a JSON %s, want %s", wrong.Value, plainType(wrong.Type))
	}
	if err != nil {
		return &Error{Kind: KindInvalid, Msg: err.Error()}
	}
	return nil
}

func plainType(t reflect.Type) string {
	if t == reflect.TypeFor[Span]() {
		return `a text like "50ms"`
	}
	switch t.Kind() {
	case reflect.Slice:
		return "a list"
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	case reflect.Bool:
		return "true or false"
	}
	return "a text"
}

// plainValue says what a value is that is of another sort than its type; "": it is not.
func plainValue(tree any, t reflect.Type) string {
	text := reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
	number := t.Kind() >= reflect.Int && t.Kind() <= reflect.Float64
	said, fits := "", true
	switch tree.(type) {
	case string:
		said, fits = "a text", text || t.Kind() == reflect.String
	case float64:
		said, fits = "a number", number && !text
	case bool:
		said, fits = "true or false", t.Kind() == reflect.Bool
	case []any:
		said, fits = "a list", t.Kind() == reflect.Slice
	case map[string]any:
		said, fits = "an object", t.Kind() == reflect.Struct || t.Kind() == reflect.Map
	}
	if fits {
		return ""
	}
	return said
}

// known walks a document beside its type.
func known(tree any, t reflect.Type, path string) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if got := plainValue(tree, t); got != "" { // json would not say of which one of a list
		return Invalid(strings.TrimSuffix(path, "."), "%s, want %s", got, plainType(t))
	}
	switch tree := tree.(type) {
	case string:
		if t == reflect.TypeFor[Span]() {
			if err := new(Span).UnmarshalText([]byte(tree)); err != nil { // json would not say which field it is
				return Invalid(strings.TrimSuffix(path, "."), "%v", err)
			}
		}
	case map[string]any:
		if t.Kind() != reflect.Struct {
			return nil // a map, or of the wrong type: json says so
		}
		types := fieldTypes(t)
		for key, value := range tree {
			of, ok := types[key]
			if !ok {
				return Invalid(path+key, "there is no such field%s", nearest.Text(key, fields(t)))
			}
			if err := known(value, of, path+key+"."); err != nil {
				return err
			}
		}
	case []any:
		if t.Kind() != reflect.Slice {
			return nil
		}
		for i, value := range tree {
			if err := known(value, t.Elem(), fmt.Sprintf("%s[%d].", strings.TrimSuffix(path, "."), i)); err != nil {
				return err
			}
		}
	}
	return nil
}

// fields are a struct's names in JSON, in order.
func fields(t reflect.Type) (names []string) {
	for f := range t.Fields() {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			names = append(names, name)
		}
	}
	return names
}

func fieldTypes(t reflect.Type) map[string]reflect.Type {
	types := map[string]reflect.Type{}
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		types[name] = f.Type
	}
	return types
}
