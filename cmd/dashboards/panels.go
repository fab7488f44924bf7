package main

// What a dashboard is, as Grafana 10 and later read it.

type dashboard struct {
	UID           string         `json:"uid"`
	Title         string         `json:"title"`
	Description   string         `json:"description"`
	Tags          []string       `json:"tags"`
	SchemaVersion int            `json:"schemaVersion"`
	Version       int            `json:"version"`
	Editable      bool           `json:"editable"`
	GraphTooltip  int            `json:"graphTooltip"` // 1: one crosshair in all panels
	Refresh       string         `json:"refresh"`
	Time          map[string]any `json:"time"`
	Templating    templating     `json:"templating"`
	Panels        []panel        `json:"panels"`
}

type templating struct {
	List []variable `json:"list"`
}

type variable struct {
	Name       string         `json:"name"`
	Label      string         `json:"label"`
	Type       string         `json:"type"`
	Query      any            `json:"query"`
	Datasource *source        `json:"datasource,omitempty"`
	Multi      bool           `json:"multi,omitempty"`
	IncludeAll bool           `json:"includeAll,omitempty"`
	AllValue   string         `json:"allValue,omitempty"`
	Refresh    int            `json:"refresh,omitempty"` // 2: with the time range
	Sort       int            `json:"sort,omitempty"`
	Current    map[string]any `json:"current,omitempty"`
}

type source struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

type panel struct {
	ID          int          `json:"id"`
	Type        string       `json:"type"`
	Title       string       `json:"title"`
	Description string       `json:"description,omitempty"`
	Datasource  *source      `json:"datasource,omitempty"`
	GridPos     place        `json:"gridPos"`
	Targets     []target     `json:"targets,omitempty"`
	FieldConfig *fieldConfig `json:"fieldConfig,omitempty"`
	Options     *options     `json:"options,omitempty"`
	Collapsed   *bool        `json:"collapsed,omitempty"` // of a row, as is Panels
	Panels      *[]panel     `json:"panels,omitempty"`    // those that are hidden while it is collapsed
}

type place struct {
	H int `json:"h"`
	W int `json:"w"`
	X int `json:"x"`
	Y int `json:"y"`
}

type target struct {
	RefID        string  `json:"refId"`
	Expr         string  `json:"expr"`
	LegendFormat string  `json:"legendFormat"`
	Exemplar     bool    `json:"exemplar,omitempty"`
	Datasource   *source `json:"datasource"`
}

type fieldConfig struct {
	Defaults  defaults `json:"defaults"`
	Overrides []any    `json:"overrides"` // never null: Grafana looks through them
}

type defaults struct {
	Unit   string         `json:"unit"`
	Min    *float64       `json:"min,omitempty"`
	Max    *float64       `json:"max,omitempty"`
	Custom map[string]any `json:"custom,omitempty"`
}

type options struct {
	Legend  map[string]any `json:"legend"`
	Tooltip map[string]any `json:"tooltip"`
}

// datasource is the one that the viewer chooses.
func datasource() *source { return &source{"prometheus", "${datasource}"} }

// graph is a panel to be; row is a title over those that follow.
type graph struct {
	row, title, about, unit string
	stacked                 bool
	share                   bool // from 0 to 1
	queries                 []query
}

type query struct {
	expr, legend string
	exemplars    bool // of traces
}

const (
	columns    = 24
	graphWidth = 8
	graphHigh  = 8
)

// lay places graphs three in a row.
func lay(graphs []graph) []panel {
	var out []panel
	x, y := 0, 0
	for _, g := range graphs {
		if g.row != "" {
			if x > 0 {
				x, y = 0, y+graphHigh
			}
			out = append(out, panel{ID: len(out) + 1, Type: "row", Title: g.row, GridPos: place{1, columns, 0, y}, Collapsed: new(bool), Panels: &[]panel{}})
			y++
			continue
		}
		out = append(out, g.panel(len(out)+1, place{graphHigh, graphWidth, x, y}))
		if x += graphWidth; x == columns {
			x, y = 0, y+graphHigh
		}
	}
	return out
}

func (g graph) panel(id int, at place) panel {
	zero, one := 0.0, 1.0
	p := panel{ID: id, Type: "timeseries", Title: g.title, Description: g.about, Datasource: datasource(), GridPos: at,
		FieldConfig: &fieldConfig{defaults{Unit: g.unit, Min: &zero, Custom: map[string]any{"fillOpacity": 0, "showPoints": "never"}}, []any{}},
		Options:     &options{Legend: map[string]any{"displayMode": "list", "placement": "bottom", "showLegend": true, "calcs": []string{}}, Tooltip: map[string]any{"mode": "multi", "sort": "desc"}}}
	if g.share {
		p.FieldConfig.Defaults.Max = &one
	}
	if g.stacked {
		p.FieldConfig.Defaults.Custom["fillOpacity"] = 40
		p.FieldConfig.Defaults.Custom["stacking"] = map[string]any{"mode": "normal"}
	}
	for i, q := range g.queries {
		p.Targets = append(p.Targets, target{RefID: string(rune('A' + i)), Expr: q.expr, LegendFormat: q.legend, Exemplar: q.exemplars, Datasource: datasource()})
	}
	return p
}

// page makes a dashboard; more are its variables beside the source of data.
func page(uid, title, about string, graphs []graph, more ...variable) dashboard {
	vars := append([]variable{{Name: "datasource", Label: "Prometheus", Type: "datasource", Query: "prometheus", Current: map[string]any{}}}, more...)
	return dashboard{UID: uid, Title: title, Description: about, Tags: []string{"symphony"}, SchemaVersion: 39, Version: 1, GraphTooltip: 1,
		Refresh: "10s", Time: map[string]any{"from": "now-1h", "to": "now"}, Templating: templating{vars}, Panels: lay(graphs)}
}

// choice is a variable of a label's values.
func choice(name, label, metric string) variable {
	q := "label_values(" + metric + ", " + name + ")"
	return variable{Name: name, Label: label, Type: "query", Query: map[string]any{"query": q, "refId": name}, Datasource: datasource(),
		Multi: true, IncludeAll: true, AllValue: ".*", Refresh: 2, Sort: 1, Current: map[string]any{"text": "All", "value": "$__all"}}
}
